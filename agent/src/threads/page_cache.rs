//! The memory of a process, read page by page and each page once.
//!
//! Threads of a process have much in common: the lists of thread states, code objects, and the pages in
//! which all of that lies. A page that is not in memory is not read: to wait for it could take any time. The pages
//! of the last walks of the threads that are to be read are copied [before](PageCache::prefetch): their next walks
//! mostly read the same ones.
//!
//! A thread that runs for some microseconds at a time would have run before its stack is walked page by page:
//! then all pages of the walk before are copied at once, and walked when it is proved that the thread did not
//! run meanwhile.
//!
//! Invariants: what is kept is bounded, and is from one moment: it is [cleared](PageCache::clear) before
//! stacks are read whose proofs begin later, and pages are copied before they are wanted only after that; nothing is added to a [snapshot](PageCache::take_snapshot).

use std::cell::{Cell, RefCell};

use agent_common::memory::{Fault, UserAddr, UserMemory};
use foldhash::HashMap;

use super::page_copy::{self, PAGE, Page};
use crate::process::Process;

/// Most pages that are kept.
const MAX_PAGES: usize = 2048;

/// Most pages of a snapshot.
const MAX_SNAPSHOT: usize = 128;

/// Most times that pages are copied before they are wanted: one that cannot be read ends a copy.
const MAX_COPIES: usize = 4;

/// Most changes from one page to another that are noted in a walk.
const MAX_WANTED: usize = 4096;

/// The memory of a process.
#[derive(Debug)]
pub(super) struct PageCache {
    process: Process,
    /// By number; [`None`] of one that cannot be read.
    pages: RefCell<HashMap<u64, Option<Page>>>,
    /// Numbers of the pages that were wanted since [`Self::begin_walk`].
    wanted: RefCell<Vec<u64>>,
    /// Whether the pages are a snapshot.
    is_frozen: Cell<bool>,
    /// Whether a page was wanted that the snapshot lacks.
    is_incomplete: Cell<bool>,
}

impl PageCache {
    pub(super) fn new(process: Process) -> Self {
        Self {
            process,
            pages: RefCell::default(),
            wanted: RefCell::default(),
            is_frozen: Cell::new(false),
            is_incomplete: Cell::new(false),
        }
    }

    /// The number of the page with this address.
    pub(super) fn page_of(address: UserAddr) -> u64 {
        address.0 / PAGE as u64
    }

    /// Whether the program still runs that did when it was opened.
    pub(super) fn is_alive(&self) -> bool {
        self.process.is_same_program()
    }

    /// Whether what is read is a [snapshot](Self::take_snapshot).
    pub(super) fn is_snapshot(&self) -> bool {
        self.is_frozen.get()
    }

    /// Forgets all pages.
    pub(super) fn clear(&self) {
        self.pages.borrow_mut().clear();
        self.is_frozen.set(false);
    }

    /// Forgets the pages with these addresses, and the ones behind them.
    pub(super) fn forget(&self, addresses: &[UserAddr]) {
        let mut pages = self.pages.borrow_mut();
        for address in addresses {
            let number = Self::page_of(*address);
            pages.remove(&number);
            pages.remove(&number.wrapping_add(1));
        }
    }

    /// Begins to note which pages are wanted.
    pub(super) fn begin_walk(&self) {
        self.wanted.borrow_mut().clear();
        self.is_incomplete.set(false);
    }

    /// The pages that were wanted since then; whether there were all of them.
    pub(super) fn wanted(&self) -> (Vec<u64>, bool) {
        let mut wanted = self.wanted.borrow().clone();
        wanted.sort_unstable();
        wanted.dedup();
        (wanted, !self.is_incomplete.get())
    }

    /// Copies these pages at once, and no others until they are [cleared](Self::clear). One that cannot be
    /// read ends the copy.
    ///
    /// The call takes the process by its id: use the copy only if the program [still
    /// runs](Self::is_alive) afterwards.
    pub(super) fn take_snapshot(&self, numbers: &[u64]) {
        self.clear();
        self.is_frozen.set(true);
        let numbers = numbers.get(..MAX_SNAPSHOT).unwrap_or(numbers);
        let contents = page_copy::copy(&self.process, numbers);
        let pages = numbers.iter().copied().zip(contents.into_iter().map(Some));
        self.pages.borrow_mut().extend(pages);
    }

    /// Copies all of these pages at once that are resident, which takes a fraction of the time in which they are read one
    /// by one. Any other one is read when it is wanted.
    pub(super) fn prefetch(&self, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(page_copy::MAX_PAGES);
        let size = PAGE as u64;
        for number in &mut numbers {
            *number = number.saturating_mul(size);
        }
        let Ok(memory) = self.process.memory() else {
            return;
        };
        let mut numbers = memory.resident_ones(&numbers);
        for address in &mut numbers {
            *address /= size;
        }
        let mut copied = Vec::with_capacity(numbers.len());
        let mut rest = numbers.as_slice();
        for _ in 0..MAX_COPIES {
            let contents = page_copy::copy(&self.process, rest);
            let (done, left) = rest.split_at(contents.len());
            copied.extend(done.iter().copied().zip(contents.into_iter().map(Some)));
            // The first one cannot be copied, or all are.
            rest = left.get(1..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
        }
        if self.is_alive() {
            self.pages.borrow_mut().extend(copied);
        }
    }

    /// Copies what the page of `address` has from there on; returns how many bytes.
    fn copy_from_page(&self, address: u64, into: &mut [u8]) -> Result<usize, Fault> {
        let size = PAGE as u64;
        let number = address / size;
        let start = usize::try_from(address % size).map_err(|_| Fault)?;
        let bytes = into.len().min(PAGE - start);
        let mut wanted = self.wanted.borrow_mut();
        let mut want = || {
            if wanted.last() != Some(&number) && wanted.len() < MAX_WANTED {
                wanted.push(number);
            }
        };
        let mut pages = self.pages.borrow_mut();
        if self.is_frozen.get() && !pages.contains_key(&number) {
            self.is_incomplete.set(true);
            want();
            return Err(Fault);
        }
        if pages.len() >= MAX_PAGES {
            pages.clear();
        }
        let page = pages.entry(number).or_insert_with(|| self.read(number));
        let page = page.as_ref().ok_or(Fault)?;
        want();
        let from = page.get(start..start + bytes).ok_or(Fault)?;
        into.get_mut(..bytes).ok_or(Fault)?.copy_from_slice(from);
        Ok(bytes)
    }

    fn read(&self, number: u64) -> Option<Page> {
        let mut page = Box::new([0; PAGE]);
        let address = number.checked_mul(PAGE as u64)?;
        let memory = self.process.memory().ok()?;
        memory.read_resident(address, &mut *page).ok()?;
        Some(page)
    }
}

impl UserMemory for PageCache {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller guarantees that `into` is valid for `bytes` bytes, which are initialised
        // here.
        let mut into = unsafe {
            into.write_bytes(0, bytes as usize);
            std::slice::from_raw_parts_mut(into, bytes as usize)
        };
        let mut address = address.0;
        while !into.is_empty() {
            let copied = self.copy_from_page(address, into)?;
            into = into.get_mut(copied..).ok_or(Fault)?;
            address = address.checked_add(copied as u64).ok_or(Fault)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_across_pages_and_once() {
        let mut bytes = vec![7_u8; 3 * PAGE];
        let process = Process::open(std::process::id()).unwrap();
        let pages = PageCache::new(process);
        let mut into = vec![0; 2 * PAGE];
        let from = UserAddr(bytes.as_ptr().addr() as u64 + 100);
        let read = |into: &mut [u8]| {
            let length = u32::try_from(into.len()).unwrap();
            // SAFETY: `into` has this length.
            unsafe { pages.copy(from, into.as_mut_ptr(), length) }
        };
        assert_eq!(read(&mut into), Ok(()));
        assert_eq!(into, bytes[100..100 + 2 * PAGE]);
        bytes.fill(8);
        assert_eq!(read(&mut into), Ok(()));
        assert!(into.iter().all(|byte| *byte == 7));
        pages.clear();
        assert_eq!(read(&mut into), Ok(()));
        assert!(into.iter().all(|byte| *byte == 8));
        assert!(pages.is_alive());
    }

    #[test]
    fn pages_that_were_copied_before_are_not_read_again() {
        let mut bytes = vec![7_u8; 6 * PAGE];
        let pages = PageCache::new(Process::open(std::process::id()).unwrap());
        let number = bytes.as_ptr().addr() as u64 / PAGE as u64;
        // In any order, and with some that are not there.
        let all = [1, 3, 2, 5].map(|page| number + page);
        pages.prefetch([&all[..], &[0, 1, u64::MAX, all[0]]].concat());
        bytes.fill(8);
        for (page, byte) in [(1, 7), (2, 7), (3, 7), (4, 8), (5, 7)] {
            let address = UserAddr((number + page) * PAGE as u64);
            let expected = u64::from_ne_bytes([byte; 8]);
            assert_eq!(pages.word(address), Ok(expected), "{page}");
        }
        assert!(pages.word(UserAddr(8)).is_err());
        pages.clear();
        pages.prefetch(vec![0]);
        let first = UserAddr(all[0] * PAGE as u64);
        assert_eq!(pages.word(first), Ok(u64::from_ne_bytes([8; 8])));
    }

    #[test]
    fn some_pages_can_be_read_again() {
        let mut bytes = vec![7_u8; 4 * PAGE];
        let pages = PageCache::new(Process::open(std::process::id()).unwrap());
        let at = |page: usize| UserAddr((bytes.as_ptr().addr() + page * PAGE) as u64 / 8 * 8);
        let all = [at(0), at(1), at(2)];
        let word = |address: UserAddr| pages.word(address).unwrap().to_ne_bytes()[0];
        assert_eq!(all.map(word), [7; 3]);
        bytes.fill(8);
        pages.forget(&all[1..2]);
        pages.forget(&[UserAddr(u64::MAX)]);
        assert_eq!(all.map(word), [7, 8, 8]);
    }

    #[test]
    fn a_snapshot_has_the_pages_of_the_walk_before_and_no_others() {
        let mut bytes = vec![7_u8; 4 * PAGE];
        let pages = PageCache::new(Process::open(std::process::id()).unwrap());
        let at = |page: usize| UserAddr((bytes.as_ptr().addr() + page * PAGE) as u64 / 8 * 8);
        let (first, third) = (at(0), at(2));
        pages.begin_walk();
        let sevens = u64::from_ne_bytes([7; 8]);
        assert_eq!(pages.word(first), Ok(sevens));
        let (wanted, is_complete) = pages.wanted();
        assert_eq!((wanted.len(), is_complete), (1, true));
        pages.take_snapshot(&wanted);
        bytes.fill(8);
        pages.begin_walk();
        assert_eq!(pages.word(first), Ok(sevens));
        assert!(pages.wanted().1);
        assert_eq!(pages.word(third), Err(Fault));
        let (wanted, is_complete) = pages.wanted();
        assert_eq!((wanted.len(), is_complete), (2, false));
        pages.clear();
        assert_eq!(pages.word(third), Ok(u64::from_ne_bytes([8; 8])));
    }

    #[test]
    fn a_snapshot_ends_where_a_page_cannot_be_read() {
        let bytes = vec![7_u8; 2 * PAGE];
        let pages = PageCache::new(Process::open(std::process::id()).unwrap());
        let number = bytes.as_ptr().addr() as u64 / PAGE as u64;
        pages.take_snapshot(&[0, number]);
        assert_eq!(pages.word(UserAddr(number * PAGE as u64)), Err(Fault));
    }

    #[test]
    fn what_is_not_in_memory_is_a_fault() {
        let process = Process::open(std::process::id()).unwrap();
        let pages = PageCache::new(process);
        assert_eq!(pages.word(UserAddr(8)), Err(Fault));
        assert_eq!(pages.word(UserAddr(u64::MAX - 3)), Err(Fault));
    }
}
