//! A file on a FUSE file system, which the file helper reads.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    client,
    mounts::{FileSystem, Status},
    protocol::FileStatus,
};

/// The number of the last file.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A file on a FUSE file system.
#[derive(Debug)]
pub(in crate::process) struct FuseFile {
    /// It is not open for reading: that, and closing it then, sends requests.
    reference: OwnedFd,
    number: u64,
    file_system: Arc<FileSystem>,
}

impl FuseFile {
    /// The file of an `O_PATH` descriptor.
    pub(in crate::process) fn open(
        reference: OwnedFd,
        file_system: Arc<FileSystem>,
    ) -> io::Result<Self> {
        let file = Self {
            reference,
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            file_system,
        };
        // It is opened, so that what cannot be is no file.
        file.status()?;
        Ok(file)
    }

    /// Its size when its status was last read.
    pub(in crate::process) fn bytes(&self) -> io::Result<u64> {
        Ok(FileStatus::from(&Status::of(&self.reference)?).bytes)
    }

    /// Its present status.
    pub(in crate::process) fn status(&self) -> io::Result<FileStatus> {
        client::status(&self.reference, self.number, &self.file_system)
    }

    /// As much as one request reads; 0 at its end.
    pub(in crate::process) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let file_system = &self.file_system;
        client::read(&self.reference, self.number, into, offset, file_system)
    }
}
