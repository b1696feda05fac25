//! Sections of which only the pages in use are in memory.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use gimli::{Error, Result};

use super::meter::Meter;
use crate::binaries::elf::{Shared, Source as _};

/// Bytes of a page.
pub(super) const PAGE: usize = 8 << 10;

/// A section of a file, in memory page by page.
pub(super) struct PagedSection {
    /// Unique among the sections of a reader.
    pub(super) id: u64,
    pub(super) bytes: usize,
    storage: Storage,
    pub(super) meter: Arc<Meter>,
}

enum Storage {
    /// All of it.
    Memory(Vec<u8>),
    File {
        source: Shared,
        offset: u64,
        pages: Box<[OnceLock<Box<[u8]>>]>,
    },
}

impl PagedSection {
    /// A section that is in memory as a whole.
    pub(super) fn in_memory(id: u64, contents: Vec<u8>, meter: Arc<Meter>) -> Result<Self> {
        meter.keep(contents.len())?;
        Ok(Self {
            id,
            bytes: contents.len(),
            storage: Storage::Memory(contents),
            meter,
        })
    }

    /// `bytes` bytes of a file from `offset` on.
    pub(super) fn in_file(
        id: u64,
        source: Shared,
        (offset, bytes): (u64, u64),
        meter: Arc<Meter>,
    ) -> Result<Self> {
        // Allocate no pages beyond the end of the file.
        let available = source.bytes().map_err(|_| Error::Io)?;
        let bytes = bytes.min(available.saturating_sub(offset));
        let bytes = usize::try_from(bytes).map_err(|_| Error::Io)?;
        let pages = bytes.div_ceil(PAGE);
        meter.keep(pages * size_of::<OnceLock<Box<[u8]>>>())?;
        Ok(Self {
            id,
            bytes,
            storage: Storage::File {
                source,
                offset,
                pages: (0..pages).map(|_| OnceLock::new()).collect(),
            },
            meter,
        })
    }

    /// The bytes from `start` to the end of the page.
    #[inline]
    pub(super) fn at(&self, start: usize) -> Result<&[u8]> {
        let page = match &self.storage {
            Storage::Memory(contents) => contents.get(start..),
            Storage::File { pages, .. } => match pages.get(start / PAGE).and_then(OnceLock::get) {
                Some(page) => page.get(start % PAGE..),
                None => self.read(start / PAGE)?.get(start % PAGE..),
            },
        };
        page.ok_or(Error::Io)
    }

    /// Reads a page.
    #[cold]
    fn read(&self, index: usize) -> Result<&[u8]> {
        let Storage::File {
            source,
            offset,
            pages,
        } = &self.storage
        else {
            return Err(Error::Io);
        };
        let cell = pages.get(index).ok_or(Error::Io)?;
        let start = index * PAGE;
        let mut page = vec![0; PAGE.min(self.bytes - start)].into_boxed_slice();
        self.meter.keep(page.len())?;
        let from = offset.checked_add(start as u64).ok_or(Error::Io)?;
        source.fill(&mut page, from).map_err(|_| Error::Io)?;
        Ok(cell.get_or_init(|| page))
    }
}

impl fmt::Debug for PagedSection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "section {} of {} bytes", self.id, self.bytes)
    }
}
