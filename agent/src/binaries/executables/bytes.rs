//! Where the bytes of an executable are read from.

use std::io;

use crate::{binaries::elf::Source, process::RegularFile};

/// The bytes of an executable.
#[derive(Debug)]
pub enum Bytes {
    /// A file, open for reading.
    File(RegularFile),
    /// A copy of memory.
    Memory(Box<[u8]>),
}

impl Source for Bytes {
    fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.bytes(),
            Self::Memory(memory) => (&**memory).bytes(),
        }
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.fill(into, offset),
            Self::Memory(memory) => (&**memory).fill(into, offset),
        }
    }

    fn owner(&self) -> Option<u64> {
        match self {
            Self::File(file) => Source::owner(file),
            Self::Memory(_) => None,
        }
    }
}
