//! Symbol tables, and looking up symbols by name, also those that are not exported.

use std::collections::HashSet;

use goblin::elf::{
    SectionHeader,
    section_header::{SHN_UNDEF, SHT_SYMTAB},
};

use memchr::memmem;

use super::{
    error::Error,
    file::{Elf, MAX_NAME},
    numbers::{at_most, u32_at, u64_at},
    source::Source,
};

/// Bytes of a symbol.
pub(super) const SYMBOL_BYTES: usize = 24;

/// Most bytes of a table of names or symbols that are scanned.
const MAX_TABLE: u64 = 256 << 20;

/// Most offsets in a table of names at which a name is found: names share their ends.
const MAX_OFFSETS: usize = 64;

/// Most symbols that are found by a prefix.
const MAX_PREFIXED: usize = 1 << 10;

/// A symbol that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address before the load bias is added.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// Offsets and sizes of a symbol table and its names, in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolTable {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) names_offset: u64,
    pub(super) names_bytes: u64,
}

impl<S: Source> Elf<S> {
    /// The symbol with this name, exported or not.
    ///
    /// # Errors
    ///
    /// When the tables cannot be read.
    pub fn symbol(&self, name: &str) -> Result<Option<Symbol>, Error> {
        if let Some(symbol) = self.exported_symbol(name)? {
            return Ok(Some(symbol));
        }
        let mut sections = self.sections.iter();
        match sections.find(|section| section.sh_type == SHT_SYMTAB) {
            Some(symbols) => self.search(symbols, name),
            None => Ok(None),
        }
    }

    /// The symbols whose names start with `prefix`, exported or not, of a file that is not stripped;
    /// at most 1024.
    ///
    /// # Errors
    ///
    /// When the tables cannot be read.
    pub fn symbols_with_prefix(&self, prefix: &str) -> Result<Vec<Symbol>, Error> {
        let mut found = Vec::new();
        let mut sections = self.sections.iter();
        if let Some(symbols) = sections.find(|section| section.sh_type == SHT_SYMTAB) {
            self.scan_symbols(symbols, prefix.as_bytes(), MAX_PREFIXED, |symbol| {
                if found.len() < MAX_PREFIXED {
                    found.push(symbol);
                }
            })?;
        }
        Ok(found)
    }

    /// The symbol with this name in a table.
    fn search(&self, symbols: &SectionHeader, name: &str) -> Result<Option<Symbol>, Error> {
        debug_assert!(name.len() < MAX_NAME);
        let mut needle = name.as_bytes().to_vec();
        needle.push(0);
        let mut found = None;
        self.scan_symbols(symbols, &needle, MAX_OFFSETS, |symbol| {
            found = found.or(Some(symbol));
        })?;
        Ok(found)
    }

    /// Scans a symbol table, and calls `look` with the symbols that the file defines and whose names
    /// start with `needle`; only the first `most` offsets of `needle` count.
    fn scan_symbols(
        &self,
        symbols: &SectionHeader,
        needle: &[u8],
        most: usize,
        mut look: impl FnMut(Symbol),
    ) -> Result<(), Error> {
        let Some(strings) = self.sections.get(symbols.sh_link as usize) else {
            return Ok(());
        };
        for (what, bytes) in [("symbols", symbols.sh_size), ("names", strings.sh_size)] {
            if bytes > MAX_TABLE {
                return Err(Error::TooLarge {
                    what,
                    bytes,
                    limit: MAX_TABLE,
                });
            }
        }
        let finder = memmem::Finder::new(needle);
        let mut offsets = HashSet::new();
        self.scan(
            strings.sh_offset,
            strings.sh_size,
            needle.len().saturating_sub(1),
            |start, piece| {
                let found = finder.find_iter(piece).map(|at| start + at as u64);
                offsets.extend(found.take(most - offsets.len()));
            },
        )?;
        if offsets.is_empty() {
            return Ok(());
        }
        let mut carried = 0;
        self.scan(
            symbols.sh_offset,
            symbols.sh_size,
            SYMBOL_BYTES - 1,
            |start, piece| {
                // A piece may start inside a symbol; the overlap holds its start.
                let first = (start.next_multiple_of(SYMBOL_BYTES as u64)).max(carried);
                let skip = at_most(first - start, piece.len());
                let (entries, _) = piece.split_at(skip).1.as_chunks::<SYMBOL_BYTES>();
                carried = first + (entries.len() * SYMBOL_BYTES) as u64;
                entries
                    .iter()
                    .filter(|entry| offsets.contains(&u32_at(*entry, 0).into()))
                    .filter_map(defined)
                    .for_each(&mut look);
            },
        )
    }
}

/// The address and the size of a symbol, if the file defines it.
pub(super) fn defined(symbol: &[u8; SYMBOL_BYTES]) -> Option<Symbol> {
    let section = u16::from_le_bytes([symbol[6], symbol[7]]);
    (u32::from(section) != SHN_UNDEF).then(|| Symbol {
        address: u64_at(symbol, 8),
        bytes: u64_at(symbol, 16),
    })
}
