//! Faults pages of a process in, so that the BPF programs, which cannot wait for a page, can read
//! them.

use rustix::{
    fs::{self, Mode, OFlags},
    param::page_size,
};

use super::memory::Memory;

/// Most bytes of one request.
const MAX_BYTES: u32 = 16 << 10;

/// Makes the pages with the `bytes` bytes at `address` of process `pid` resident, by reading them
/// through `/proc/PID/mem`.
///
/// A process that is gone or an address that is not mapped is no error: nothing happens.
pub fn fault_in(pid: u32, address: u64, bytes: u32) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let process = fs::open(format!("/proc/{pid}"), flags, Mode::empty());
    let Ok(memory) = process.and_then(|process| Memory::open(&process)) else {
        return;
    };
    // One byte of each page.
    let last = u64::from(bytes.clamp(1, MAX_BYTES) - 1);
    let pages = (address..=address.saturating_add(last)).step_by(page_size());
    for at in pages.chain([address.saturating_add(last)]) {
        let _ = memory.read(at, &mut [0]);
    }
}

#[cfg(test)]
mod tests {
    use super::fault_in;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::{fs, process::id};

    /// Resident bytes of this process's mapping at `address`.
    fn resident(address: usize) -> usize {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{address:x}-");
        let mapping = maps.lines().skip_while(|line| !line.starts_with(&start));
        let line = mapping
            .into_iter()
            .find_map(|line| line.strip_prefix("Rss:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            << 10
    }

    #[test]
    fn pages_of_a_file_become_resident() {
        const BYTES: u32 = 16 << 10;
        const LENGTH: usize = BYTES as usize;
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES.into()).unwrap();
        // SAFETY: a new mapping that nothing else refers to.
        let address = unsafe {
            let flags = (ProtFlags::READ, MapFlags::PRIVATE);
            mmap(std::ptr::null_mut(), LENGTH, flags.0, flags.1, &file, 0).unwrap()
        };
        assert_eq!(resident(address as usize), 0);
        fault_in(id(), address as u64, BYTES);
        assert_eq!(resident(address as usize), LENGTH);
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { munmap(address, LENGTH).unwrap() };
    }

    #[test]
    fn absent_processes_and_addresses_are_ignored() {
        fault_in(id(), 8, 64);
        fault_in(id(), u64::MAX - 3, 64);
        fault_in(u32::MAX, 4096, 64);
    }
}
