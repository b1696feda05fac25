//! Sources of the bytes of an ELF file: a file or memory.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    sync::Arc,
};

use crate::{process::RegularFile, workers::charge};

/// Something that can be read at any offset.
pub trait Source {
    /// Number of bytes.
    ///
    /// # Errors
    ///
    /// When the size cannot be read.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// When there are fewer, or they cannot be read.
    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// The user that owns the file; [`None`] of what is not a file.
    fn owner(&self) -> Option<u64> {
        None
    }
}

/// A shared source of any type.
pub type Shared = Arc<dyn Source + Send + Sync>;

impl<S: Source + ?Sized> Source for &S {
    fn bytes(&self) -> io::Result<u64> {
        S::bytes(self)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        S::fill(self, into, offset)
    }

    fn owner(&self) -> Option<u64> {
        S::owner(self)
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn bytes(&self) -> io::Result<u64> {
        S::bytes(self)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        S::fill(self, into, offset)
    }

    fn owner(&self) -> Option<u64> {
        S::owner(self)
    }
}

impl Source for File {
    fn bytes(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        charge(into.len())?;
        // Not a mapping: reads of a mapped file that is truncated raise SIGBUS.
        self.read_exact_at(into, offset)
    }

    fn owner(&self) -> Option<u64> {
        self.metadata().ok().map(|metadata| metadata.uid().into())
    }
}

impl Source for RegularFile {
    fn bytes(&self) -> io::Result<u64> {
        Self::bytes(self)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        charge(into.len())?;
        self.read_exact_at(into, offset)
    }

    fn owner(&self) -> Option<u64> {
        Self::owner(self).ok()
    }
}

impl Source for &[u8] {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(into.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn bytes(&self) -> io::Result<u64> {
        self.as_slice().bytes()
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().fill(into, offset)
    }
}
