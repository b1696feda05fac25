//! Relocations: words that the dynamic linker fills in.
//!
//! In a position-independent executable the file may have zeros in their place.

use goblin::elf::{
    header::{EM_AARCH64, EM_X86_64},
    reloc::{R_AARCH64_RELATIVE, R_X86_64_RELATIVE},
};

use super::{
    error::Error,
    file::Elf,
    numbers::{at_most, u32_at, u64_at},
    source::Source,
};

/// Bytes of an entry (`Elf64_Rela`).
const ENTRY_BYTES: usize = 24;

/// Most bytes of a table.
const MAX_BYTES: u64 = 256 << 20;

/// A relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    /// Address of the word.
    pub(super) address: u64,
    /// How the word is computed (`R_X86_64_RELATIVE`, …).
    pub(super) kind: u32,
    /// Index of a symbol.
    pub(super) symbol: u32,
    /// What is added, for a relative relocation to the load bias.
    pub(super) value: u64,
}

impl<S: Source> Elf<S> {
    /// Calls `take` with each relative relocation.
    pub(super) fn relative_relocations(
        &self,
        mut take: impl FnMut(Relocation),
    ) -> Result<(), Error> {
        let wanted = match self.machine() {
            EM_X86_64 => R_X86_64_RELATIVE,
            EM_AARCH64 => R_AARCH64_RELATIVE,
            _ => return Ok(()),
        };
        for table in self.relocation_tables()? {
            self.relocations(table, |relocation| {
                if relocation.kind == wanted {
                    take(relocation);
                }
            })?;
        }
        Ok(())
    }

    /// Calls `take` with each relocation of a table, which has an address and a number of bytes.
    pub(super) fn relocations(
        &self,
        (address, bytes): (u64, u64),
        mut take: impl FnMut(Relocation),
    ) -> Result<(), Error> {
        let bytes = bytes.min(MAX_BYTES);
        let Some(offset) = self.segments.file_offset(address, bytes) else {
            return Ok(());
        };
        let mut carried = 0;
        self.scan(offset, bytes, ENTRY_BYTES - 1, |start, piece| {
            // A piece may start inside an entry; the overlap holds its start.
            let first = start.next_multiple_of(ENTRY_BYTES as u64).max(carried);
            let skip = at_most(first - start, piece.len());
            let (entries, _) = piece.split_at(skip).1.as_chunks::<ENTRY_BYTES>();
            carried = first + (entries.len() * ENTRY_BYTES) as u64;
            for entry in entries {
                take(Relocation {
                    address: u64_at(entry, 0),
                    kind: u32_at(entry, 8),
                    symbol: u32_at(entry, 12),
                    value: u64_at(entry, 16),
                });
            }
        })
    }
}
