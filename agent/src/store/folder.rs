//! An open folder, safe for an agent that is root in a folder of another user.
//!
//! Invariants: all operations are relative to the opened folder, whatever happens to its path; symbolic
//! links are neither followed nor listed, nor is anything but a regular file; an existing file is
//! never written to.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, linkat,
        open, openat, renameat_with, statat, unlinkat,
    },
    io::Errno,
};

/// Allocation unit of most file systems, in bytes.
const BLOCK: u64 = 4_096;

/// Most entries that are listed; further ones are left alone.
const MAX_ENTRIES: usize = 1_000_000;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// An exclusive lock on a folder, held until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock(OwnedFd);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing it is not enough: a child between fork and exec may have a copy.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// A regular file in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FolderEntry {
    pub(crate) name: String,
    /// Disk space, in bytes.
    pub(crate) bytes: u64,
}

/// Disk space of a file of this length, in bytes.
pub(crate) fn bytes_on_disk(length: u64) -> u64 {
    length
        .max(1)
        .checked_next_multiple_of(BLOCK)
        .unwrap_or(u64::MAX)
}

impl Folder {
    /// Opens a folder, which is created if missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open_existing(path)
    }

    /// Opens an existing folder.
    pub(crate) fn open_existing(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    /// Locks the folder by a file in it. [`io::ErrorKind::WouldBlock`] if it is locked.
    pub(crate) fn lock(&self, name: &str) -> io::Result<FolderLock> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, private())?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(FolderLock(file))
    }

    /// The regular files whose names `is_wanted` accepts, in no order.
    pub(crate) fn entries(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)?.take(MAX_ENTRIES) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if !is_wanted(name) {
                continue;
            }
            // It may have been removed meanwhile.
            let Ok(stat) = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                entries.push(FolderEntry {
                    name: name.to_owned(),
                    bytes: bytes_on_disk(u64::try_from(stat.st_size).unwrap_or(0)),
                });
            }
        }
        Ok(entries)
    }

    /// Writes a new file, which is removed again if it cannot be written completely.
    pub(crate) fn write(&self, name: &str, parts: &[&[u8]], mode: u32) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let mut file = File::from(openat(&self.0, name, flags | OFlags::NOFOLLOW, mode)?);
        for part in parts {
            if let Err(error) = file.write_all(part) {
                let _ = self.remove(name);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads a file of at most `limit` bytes.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        // Opening a FIFO must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// Removes a file; a missing one is not an error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a file unless the new name exists. Returns whether it was renamed.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<bool> {
        let renamed = match renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // Not every file system supports `RENAME_NOREPLACE`.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&self.0, from, &self.0, to, AtFlags::empty())
                    .and_then(|()| unlinkat(&self.0, from, AtFlags::empty()))
            }
            other => other,
        };
        match renamed {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Permissions for the owner only.
fn private() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// Whether an error means that the disk or the quota is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Whether an error is not caused by the file: the process or the machine is short of a resource.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR | Errno::AGAIN)
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_neither_followed_nor_listed() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, inside.path().join("link")).unwrap();
        symlink(outside.path().join("new"), inside.path().join("dangling")).unwrap();
        fs::create_dir(inside.path().join("folder")).unwrap();

        let folder = Folder::open(inside.path()).unwrap();
        assert!(folder.read("link", 100).is_err());
        assert!(folder.write("link", &[b"x"], 0o600).is_err());
        assert!(folder.write("dangling", &[b"x"], 0o600).is_err());
        assert!(folder.lock("dangling").is_err());
        assert_eq!(folder.entries(|_| true).unwrap(), []);
        folder.remove("link").unwrap();

        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn a_file_replaces_none() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(&temporary.path().join("made/here")).unwrap();
        folder.write("a", &[b"1", b"2"], 0o600).unwrap();
        folder.write("b", &[b"3"], 0o600).unwrap();
        assert!(folder.write("b", &[b"4"], 0o600).is_err());
        assert!(!folder.rename("a", "b").unwrap());
        assert!(folder.rename("a", "c").unwrap());
        assert_eq!(folder.read("c", 2).unwrap(), b"12");
        assert_eq!(folder.read("b", 2).unwrap(), b"3");
        assert!(folder.read("c", 1).is_err());
        folder.remove("a").unwrap();
    }

    #[test]
    fn a_folder_is_used_by_one() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        let lock = folder.lock("lock").unwrap();
        let other = Folder::open(temporary.path()).unwrap();
        assert_eq!(
            other.lock("lock").unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let _copy = lock.0.try_clone().unwrap();
        drop(lock);
        other.lock("lock").unwrap();
    }
}
