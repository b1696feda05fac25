//! The memory of a process, read page by page and each page once.
//!
//! Threads of a process have much in common: the lists of thread states, code objects, and the pages in
//! which all of that lies. A page that is not in memory is not read: to wait for it could take any time.
//!
//! Invariants: what is kept is bounded, and is from one moment: it is [cleared](PageCache::clear) before
//! stacks are read whose proofs begin later.

use std::{cell::RefCell, collections::HashMap};

use agent_common::memory::{Fault, UserAddr, UserMemory};

use crate::process::Process;

/// Bytes that are read at once.
const PAGE: usize = 4096;

/// Most pages that are kept.
const MAX_PAGES: usize = 2048;

/// The contents of a page.
type Page = Box<[u8; PAGE]>;

/// The memory of a process.
#[derive(Debug)]
pub(super) struct PageCache {
    process: Process,
    /// By number; [`None`] of one that cannot be read.
    pages: RefCell<HashMap<u64, Option<Page>>>,
}

impl PageCache {
    pub(super) fn new(process: Process) -> Self {
        Self {
            process,
            pages: RefCell::default(),
        }
    }

    /// Whether the program still runs that did when it was opened.
    pub(super) fn is_alive(&self) -> bool {
        self.process.is_same_program()
    }

    /// Forgets all pages.
    pub(super) fn clear(&self) {
        self.pages.borrow_mut().clear();
    }

    /// Copies what the page of `address` has from there on; returns how many bytes.
    fn copy_from_page(&self, address: u64, into: &mut [u8]) -> Result<usize, Fault> {
        let size = PAGE as u64;
        let number = address / size;
        let start = usize::try_from(address % size).map_err(|_| Fault)?;
        let bytes = into.len().min(PAGE - start);
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MAX_PAGES {
            pages.clear();
        }
        let page = pages.entry(number).or_insert_with(|| self.read(number));
        let page = page.as_ref().ok_or(Fault)?;
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
    fn what_is_not_in_memory_is_a_fault() {
        let process = Process::open(std::process::id()).unwrap();
        let pages = PageCache::new(process);
        assert_eq!(pages.word(UserAddr(8)), Err(Fault));
        assert_eq!(pages.word(UserAddr(u64::MAX - 3)), Err(Fault));
    }
}
