//! Decompressed sections, which are decompressed once.
//!
//! They are in a temporary file; where there is none, in memory, as far as that is allowed.

use std::{collections::HashMap, sync::Arc};

use super::{
    error::DwarfError,
    spool::{LazySpool, MAX_FILE},
};
use crate::binaries::elf::{self, Elf, Shared};

/// Name of a section, and whether it is in the supplementary file.
type SectionKey = (&'static str, bool);

/// The decompressed sections of a file.
#[derive(Default)]
pub(super) struct InflatedSections {
    sections: HashMap<SectionKey, InflatedSection>,
    spool: LazySpool,
}

/// A section, and where its bytes are.
#[derive(Clone)]
pub(super) struct InflatedSection {
    pub(super) source: Shared,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) is_in_memory: bool,
}

impl InflatedSections {
    /// A compressed section of `elf`, decompressed; at most `room` bytes where it must be in memory.
    pub(super) fn get(
        &mut self,
        elf: &Elf<Shared>,
        key: SectionKey,
        room: u64,
    ) -> Result<InflatedSection, DwarfError> {
        if let Some(known) = self.sections.get(&key) {
            return Ok(known.clone());
        }
        let (name, _) = key;
        let section = if let Some(spool) = self.spool.get() {
            let bytes = elf.decompressed_bytes(name)?;
            if bytes > MAX_FILE {
                return Err(DwarfError::TooLarge);
            }
            let offset = spool.reserve(bytes).ok_or(DwarfError::NoRoom)?;
            elf.decompress_into(name, bytes, &mut spool.writer(offset))?;
            let source: Shared = Arc::clone(spool) as Shared;
            InflatedSection {
                source,
                offset,
                bytes,
                is_in_memory: false,
            }
        } else {
            let contents = elf.contents(name, room)?;
            InflatedSection {
                bytes: contents.len() as u64,
                source: Arc::new(contents),
                offset: 0,
                is_in_memory: true,
            }
        };
        self.sections.insert(key, section.clone());
        Ok(section)
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let in_memory = self.sections.values().filter(|it| it.is_in_memory);
        in_memory
            .map(|it| usize::try_from(it.bytes).unwrap_or(usize::MAX))
            .sum()
    }

    /// Drops sections in memory.
    pub(super) fn shrink(&mut self) {
        self.sections.retain(|_, section| !section.is_in_memory);
    }
}

impl From<elf::Error> for DwarfError {
    fn from(error: elf::Error) -> Self {
        match error {
            elf::Error::TooLarge { .. } => Self::TooLarge,
            elf::Error::Read { .. } => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
