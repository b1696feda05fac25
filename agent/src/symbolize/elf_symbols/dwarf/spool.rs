//! Temporary files for decompressed sections, and for units that find no room in memory.
//!
//! Invariants: a file has no name, so that nothing is left of it when the agent ends; it is on a disk,
//! since one in memory would save none; all files together have at most [`MAX_ALL`] bytes, and leave
//! room on the disk.

use std::{
    env,
    fs::File,
    io::{self, Write},
    num::NonZeroU64,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::fs::{Advice, fadvise, fstatfs, fstatvfs};

use crate::binaries::elf::Source;

/// Directories of systemd for a service, each with its own contents.
const VARIABLES: [&str; 2] = ["CACHE_DIRECTORY", "STATE_DIRECTORY"];

/// Where there are none.
const DIRECTORY: &str = "/var/tmp";

/// Most bytes of all files.
const MAX_ALL: u64 = 2 << 30;

/// Most bytes of one file.
pub(super) const MAX_FILE: u64 = 1 << 30;

/// What is reserved starts at a multiple of this, a page: writing parts of pages takes several times as
/// long.
const ALIGNMENT: u64 = 4 << 10;

/// File systems in memory: `TMPFS_MAGIC`, `RAMFS_MAGIC`.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Bytes of all files.
static ALL: AtomicU64 = AtomicU64::new(0);

/// Bytes after which what was written is handed to the disk, so that a large section does not fill
/// the page cache.
const WRITTEN_BEHIND: u64 = 8 << 20;

/// A temporary file that is created when it is first used.
#[derive(Clone, Debug, Default)]
pub(super) struct LazySpool(Arc<OnceLock<Option<Arc<Spool>>>>);

impl LazySpool {
    /// The file; [`None`] where there is no disk for it.
    pub(super) fn get(&self) -> Option<&Arc<Spool>> {
        let file = self.0.get_or_init(|| Spool::create().map(Arc::new));
        file.as_ref()
    }
}

/// A temporary file.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    /// Bytes that were reserved.
    bytes: AtomicU64,
}

impl Spool {
    /// Creates a file; [`None`] where there is no disk for it.
    fn create() -> Option<Self> {
        let variables = VARIABLES.into_iter().filter_map(env::var_os);
        let mut directories: Vec<PathBuf> = variables
            .flat_map(|paths| env::split_paths(&paths).collect::<Vec<_>>())
            .collect();
        directories.push(DIRECTORY.into());
        let file = directories
            .iter()
            .find_map(|directory| create_in(directory));
        file.map(|file| Self {
            file,
            bytes: AtomicU64::new(0),
        })
    }

    /// Reserves `bytes` more bytes; returns their offset, or [`None`] where there is no room for them.
    pub(super) fn reserve(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        if !self.leaves_room(bytes) {
            return None;
        }
        let add = |most: u64| move |all: u64| all.checked_add(bytes).filter(|all| *all <= most);
        let offset = self
            .bytes
            .fetch_update(Relaxed, Relaxed, add(MAX_FILE))
            .ok()?;
        if ALL.fetch_update(Relaxed, Relaxed, add(MAX_ALL)).is_err() {
            self.bytes.fetch_sub(bytes, Relaxed);
            return None;
        }
        Some(offset)
    }

    /// Writes to what was reserved at an offset.
    pub(super) fn writer(&self, offset: u64) -> SpoolWriter<'_> {
        SpoolWriter {
            file: &self.file,
            offset,
            behind: offset,
        }
    }

    /// Whether the disk is at most half full with `bytes` more bytes of what is free now.
    fn leaves_room(&self, bytes: u64) -> bool {
        let free = fstatvfs(&self.file).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize));
        bytes <= free / 2
    }
}

impl Source for Spool {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.fill(into, offset)
    }
}

/// Writes to a file from an offset on.
pub(super) struct SpoolWriter<'a> {
    file: &'a File,
    offset: u64,
    /// Up to where pages were handed to the disk.
    behind: u64,
}

impl SpoolWriter<'_> {
    /// Starts to write the pages since the last call to the disk, and frees those before them, which
    /// have been written meanwhile.
    fn write_behind(&mut self) {
        let start = self.behind.saturating_sub(WRITTEN_BEHIND);
        // Without it more memory is in use, nothing else.
        let _ = fadvise(
            self.file,
            start,
            NonZeroU64::new(self.offset - start),
            Advice::DontNeed,
        );
        self.behind = self.offset;
    }
}

impl Write for SpoolWriter<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let bytes = self.file.write_at(from, self.offset)?;
        self.offset += bytes as u64;
        if self.offset - self.behind >= WRITTEN_BEHIND {
            self.write_behind();
        }
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        ALL.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

fn create_in(directory: &Path) -> Option<File> {
    let is_on_disk = |file: &File| -> io::Result<bool> {
        let kind = fstatfs(file)?.f_type;
        Ok(!IN_MEMORY.iter().any(|memory| i64::from(*memory) == kind))
    };
    let file = tempfile::tempfile_in(directory).ok()?;
    is_on_disk(&file).unwrap_or(false).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, MAX_FILE, Spool, create_in};
    use std::path::Path;

    #[test]
    fn files_are_on_a_disk_and_have_a_quota() {
        assert!(create_in(Path::new("/dev/shm")).is_none());
        assert!(create_in(Path::new("/proc")).is_none());
        let spool = Spool::create().unwrap();
        assert_eq!(spool.reserve(1000), Some(0));
        assert_eq!(spool.reserve(MAX_FILE), None);
        assert_eq!(spool.reserve(u64::MAX), None);
        assert_eq!(spool.reserve(1), Some(ALIGNMENT));
    }
}
