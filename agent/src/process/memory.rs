//! Reads the memory of another process.
//!
//! An open `/proc/PID/mem` stays bound to the program that ran when it was opened: after an exit
//! or an `exec` reads fail and never reach other memory. `process_vm_readv` takes a PID, which can
//! be reused, and has no such guarantee.
//!
//! A page that is not resident may be one of a file on a FUSE file system: such a page is read by the
//! [file helper](super::fuse). (Reads of the command line and of the environment never get there: the
//! kernel reads anonymous memory alone for them.)
//!
//! Invariants: the process is neither stopped nor changed, so what is read may be torn and is
//! untrusted; a read of resident memory allocates nothing.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use super::{
    files::link_of,
    fuse::{self, FileSystem, Status},
    maps::{self, Mapping},
    page_map::PageMap,
};
use crate::workers::charge;

/// Most bytes of `maps`: ten times what 65,530 mappings, the kernel's default bound, take.
const MAPS_BYTES: u64 = 64 << 20;

/// The memory of a running program.
#[derive(Debug)]
pub struct Memory {
    contents: File,
    /// For each page, whether it is resident; [`None`] where it may not be read.
    pages: Option<PageMap>,
    /// The directory `/proc/PID`.
    process: OwnedFd,
}

/// Why memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReadError {
    /// The process has ended or runs another program.
    Gone,
    /// Not all of the range is mapped and readable.
    Unmapped,
}

impl Memory {
    /// Opens the file `mem` of `process`, an open directory `/proc/PID`.
    pub(super) fn open(process: &OwnedFd) -> Result<Self, Errno> {
        let open = |name| {
            fs::openat(
                process,
                name,
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        Ok(Self {
            contents: open("mem")?.into(),
            pages: open("pagemap").ok().map(PageMap::from),
            process: rustix::io::fcntl_dupfd_cloexec(process, 0)?,
        })
    }

    /// Fills `into` from `address`.
    ///
    /// # Errors
    ///
    /// When not all of it could be read.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryReadError> {
        // File offsets are signed.
        let end = address.saturating_add(into.len() as u64);
        if i64::try_from(end).is_err() {
            return Err(MemoryReadError::Unmapped);
        }
        charge(into.len()).map_err(|_| MemoryReadError::Unmapped)?;
        let read = match self.fuse_behind(address, end) {
            None => self.contents.read_exact_at(into, address),
            Some(file_system) => self.read_by_helper(address, into, &file_system),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof if !self.is_alive() => MemoryReadError::Gone,
            _ => MemoryReadError::Unmapped,
        })
    }

    /// Fills `into` from `address` if all of it is in memory or in swap space: nothing that the process
    /// maps makes it wait, unless the process changes that at this very moment.
    ///
    /// # Errors
    ///
    /// When not all of it could be read.
    pub fn read_resident(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryReadError> {
        let end = address.saturating_add(into.len() as u64);
        if i64::try_from(end).is_err() || !self.is_resident(address, end) {
            return Err(MemoryReadError::Unmapped);
        }
        let read = self.contents.read_exact_at(into, address);
        read.map_err(|_| MemoryReadError::Unmapped)
    }

    /// Those of some addresses, which must ascend, whose pages are in memory or in swap space.
    pub fn resident_ones(&self, addresses: &[u64]) -> Vec<u64> {
        let pages = self.pages.as_ref();
        pages.map_or_else(Vec::new, |pages| pages.resident_ones(addresses))
    }

    fn read_by_helper(
        &self,
        mut address: u64,
        mut into: &mut [u8],
        file_system: &FileSystem,
    ) -> io::Result<()> {
        while !into.is_empty() {
            let bytes = fuse::read_memory(&self.contents, into, address, file_system)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = into.get_mut(bytes..).unwrap_or_default();
            address += bytes as u64;
        }
        Ok(())
    }

    /// The FUSE file system of a page in this range that is not resident.
    ///
    /// The process can change both at any time: one that intends to hold the agent up may succeed.
    fn fuse_behind(&self, start: u64, end: u64) -> Option<Arc<FileSystem>> {
        if self.is_resident(start, end) {
            return None;
        }
        let mut text = Vec::new();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = fs::openat(&self.process, "maps", flags, Mode::empty()).ok()?;
        File::from(file)
            .take(MAPS_BYTES)
            .read_to_end(&mut text)
            .ok()?;
        let mappings = maps::parse(&text);
        let inside = mappings
            .iter()
            .filter(|mapping| mapping.file.is_some() && mapping.start < end && start < mapping.end);
        inside
            .filter_map(|mapping| self.file_system(mapping))
            .find(|it| it.is_fuse)
    }

    fn file_system(&self, mapping: &Mapping) -> Option<Arc<FileSystem>> {
        let link = link_of(mapping);
        let path = Path::new(&link);
        let status = Status::at(&self.process, path).ok()?;
        Some(FileSystem::at(
            &self.process,
            path,
            &status,
            Some(&self.process),
        ))
    }

    /// Whether all pages of a range are known to be resident.
    fn is_resident(&self, start: u64, end: u64) -> bool {
        let pages = self.pages.as_ref();
        pages.is_some_and(|pages| pages.are_resident(start, end))
    }

    /// The 64-bit number at `address`.
    ///
    /// # Errors
    ///
    /// When it could not be read.
    pub fn word(&self, address: u64) -> Result<u64, MemoryReadError> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Whether the program still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // Address 0 is not mapped, which is an error; a process without memory gives the end of
        // the file instead.
        !matches!(self.contents.read_at(&mut [0], 0), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryReadError;
    use crate::process::Process;
    use rustix::{
        mm::{MapFlags, ProtFlags, mmap, munmap},
        param::page_size,
    };
    use std::process::{Command, Stdio, id};

    #[test]
    fn pages_that_are_not_resident_are_known() {
        const PAGES: usize = 40;
        let file = tempfile::tempfile().unwrap();
        file.set_len((PAGES * page_size()) as u64).unwrap();
        // SAFETY: a new mapping that nothing else refers to.
        let address = unsafe {
            let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
            mmap(
                std::ptr::null_mut(),
                PAGES * page_size(),
                protection,
                flags,
                &file,
                0,
            )
            .unwrap()
        };
        let process = Process::open(id()).unwrap();
        let memory = process.memory().unwrap();
        let (start, end) = (
            address as u64,
            (address as usize + PAGES * page_size()) as u64,
        );
        assert!(!memory.is_resident(start, start + 1));
        // The file system of a temporary file is not FUSE.
        assert!(memory.fuse_behind(start, end).is_none());
        memory
            .read(start, &mut vec![0; PAGES * page_size()])
            .unwrap();
        assert!(memory.is_resident(start, end));
        assert!(!memory.is_resident(start, end + (1 << 40)));
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { munmap(address, PAGES * page_size()).unwrap() };
    }

    #[test]
    fn own_memory_is_read() {
        let process = Process::open(id()).unwrap();
        let memory = process.memory().unwrap();
        let value = std::hint::black_box(0x1234_5678_9abc_def0_u64);
        assert_eq!(memory.word((&raw const value) as u64), Ok(value));
        for address in [0, 8, u64::MAX, u64::MAX - 7, i64::MAX.cast_unsigned() - 7] {
            assert_eq!(
                memory.word(address),
                Err(MemoryReadError::Unmapped),
                "{address:#x}"
            );
        }
        assert!(memory.is_alive());
    }

    #[test]
    fn the_memory_after_an_exec_is_not_read() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let process = loop {
            let process = Process::open(child.id()).unwrap();
            if process.executable() != std::env::current_exe().unwrap() {
                break process;
            }
        };
        let memory = process.memory().unwrap();
        let start = process.mappings().unwrap()[0].start;
        memory.word(start).unwrap();
        assert!(process.is_same_program());
        drop(child.stdin.take());
        while memory.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(memory.word(start), Err(MemoryReadError::Gone));
        assert!(!process.is_same_program());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
