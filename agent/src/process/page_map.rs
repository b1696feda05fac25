//! Which pages of a process are resident.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
};

use rustix::param::page_size;

/// The page is in memory, or in swap space.
const RESIDENT: u64 = 1 << 63 | 1 << 62;

/// Pages whose state is read at once.
const PAGES: usize = 16;

/// The states of pages that are less far apart than this are read at once, with those in between.
const NEAR: u64 = 16;

/// The state of the pages of the program that a process runs when this is opened.
#[derive(Debug)]
pub struct PageMap(File);

impl From<OwnedFd> for PageMap {
    /// That of an open file `pagemap`.
    fn from(file: OwnedFd) -> Self {
        Self(file.into())
    }
}

impl PageMap {
    /// Opens that of a process.
    ///
    /// # Errors
    ///
    /// When the process has ended, or its memory may not be looked at.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Whether the page with an address is in memory or in swap space.
    ///
    /// # Errors
    ///
    /// When the process has ended or runs another program.
    pub fn is_resident(&self, address: u64) -> io::Result<bool> {
        let mut entry = [0; 8];
        let entries = self.entries(address / page_size() as u64, &mut entry)?;
        Ok(entries.iter().copied().all(is_resident))
    }

    /// Whether all pages of a range are known to be.
    pub(super) fn are_resident(&self, start: u64, end: u64) -> bool {
        let page = page_size() as u64;
        let mut entries = [0; 8 * PAGES];
        let mut numbers = start / page..end.div_ceil(page);
        while !numbers.is_empty() {
            let some = (numbers.end - numbers.start).min(PAGES as u64);
            let entries = &mut entries[..8 * usize::try_from(some).unwrap_or(PAGES)];
            let are_there = self.entries(numbers.start, entries);
            if !are_there.is_ok_and(|entries| entries.iter().copied().all(is_resident)) {
                return false;
            }
            numbers.start += some;
        }
        true
    }

    /// Those of some addresses, which must ascend, whose pages are known to be.
    pub(super) fn resident_ones(&self, addresses: &[u64]) -> Vec<u64> {
        let number = |address: &u64| address / page_size() as u64;
        let is_near = |one: &u64, next: &u64| number(next).saturating_sub(number(one)) < NEAR;
        let mut resident = Vec::with_capacity(addresses.len());
        let mut entries = Vec::new();
        for near in addresses.chunk_by(is_near) {
            let (Some(first), Some(last)) = (near.first().map(number), near.last().map(number))
            else {
                continue;
            };
            let count = usize::try_from(last.saturating_sub(first)).unwrap_or(0) + 1;
            entries.resize(8 * count, 0);
            let Ok(entries) = self.entries(first, &mut entries) else {
                continue;
            };
            let is_there = |address: &&u64| {
                let index = usize::try_from(number(address) - first).unwrap_or(usize::MAX);
                entries.get(index).copied().is_some_and(is_resident)
            };
            resident.extend(near.iter().filter(is_there));
        }
        resident
    }

    /// The entries of pages from one on, as many as there is room for.
    fn entries<'a>(&self, first: u64, room: &'a mut [u8]) -> io::Result<&'a [[u8; 8]]> {
        self.0.read_exact_at(room, first * 8)?;
        Ok(room.as_chunks().0)
    }
}

fn is_resident(entry: [u8; 8]) -> bool {
    u64::from_le_bytes(entry) & RESIDENT != 0
}

/// How many pages of a process are in memory; [`None`] when it has ended.
#[must_use]
pub fn resident_pages(pid: u32) -> Option<u64> {
    let counts = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    counts.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{process::id, ptr::null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::*;

    #[test]
    fn pages_that_are_touched_are_resident() {
        let bytes = page_size() * 64;
        let mut memory = vec![0_u8; bytes];
        let pages = PageMap::open(id()).unwrap();
        // One in the middle, not that of other allocations.
        let address = memory.as_ptr() as u64 + (bytes / 2) as u64;
        memory[bytes / 2] = 1;
        assert!(pages.is_resident(address).unwrap());
        assert!(!pages.is_resident(8).unwrap());
        assert!(resident_pages(id()).unwrap() > 100);
        assert_eq!(resident_pages(u32::MAX), None);
        assert!(PageMap::open(u32::MAX).is_err());
    }

    #[test]
    fn the_resident_ones_of_many_are_told_apart() {
        let page = page_size();
        // SAFETY: a new mapping that nothing else refers to.
        let memory = unsafe {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            mmap_anonymous(null_mut(), page * 256, protection, flags).unwrap()
        };
        // Else touching one makes all of them resident.
        // SAFETY: mapped above.
        unsafe { madvise(memory, page * 256, Advice::LinuxNoHugepage).unwrap() };
        let base = memory as u64;
        // Some that are near one another, and some that are not.
        let touched = [3, 4, 10, 100, 250];
        for number in touched {
            // SAFETY: mapped above, and nothing refers to it.
            unsafe { memory.cast::<u8>().add(number * page + 5).write(1) };
        }
        let pages = PageMap::open(id()).unwrap();
        let at = |number: usize| base + (number * page) as u64 + 5;
        let addresses: Vec<u64> = [8].into_iter().chain((1..=250).map(at)).collect();
        let resident = pages.resident_ones(&addresses);
        assert_eq!(resident, touched.map(at));
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { munmap(memory, page * 256).unwrap() };
        assert!(pages.resident_ones(&[]).is_empty());
        assert!(pages.resident_ones(&[u64::MAX - 4096, u64::MAX]).is_empty());
    }
}
