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
        self.0
            .read_exact_at(&mut entry, address / page_size() as u64 * 8)?;
        Ok(is_resident(entry))
    }

    /// Whether all pages of a range are known to be.
    pub(super) fn are_resident(&self, start: u64, end: u64) -> bool {
        let page = page_size() as u64;
        let mut entries = [0; 8 * PAGES];
        let mut numbers = start / page..end.div_ceil(page);
        while !numbers.is_empty() {
            let some = (numbers.end - numbers.start).min(PAGES as u64);
            let entries = &mut entries[..8 * usize::try_from(some).unwrap_or(PAGES)];
            if self.0.read_exact_at(entries, numbers.start * 8).is_err() {
                return false;
            }
            let (entries, _) = entries.as_chunks();
            if !entries.iter().copied().all(is_resident) {
                return false;
            }
            numbers.start += some;
        }
        true
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
    use std::process::id;

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
}
