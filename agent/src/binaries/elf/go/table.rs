//! Finding the table, and reading its header.

use crate::binaries::elf::{
    error::Error,
    file::Elf,
    numbers::{u32_at, u64_at},
    source::Source,
    symbols::SymbolTable,
};

/// Names of its section; the second in position-independent executables.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Sections of every Go program, also where another linker has merged the sections above with others.
const MARKS: [&str; 2] = [".note.go.buildid", ".go.buildinfo"];

/// Most bytes of the table, which is read into memory; in a program of 100 MB it has 30 MB.
const MAX_BYTES: u64 = 96 << 20;

/// Most bytes of data that are searched for the table.
const MAX_SEARCHED: u64 = 256 << 20;

/// Bytes of an address.
const ADDRESS_BYTES: usize = 8;

/// Offsets of `minpc`, `maxpc` and `text` in `runtime.moduledata`, whose first field is the address
/// of the table.
const MODULE_DATA: [u64; 3] = [160, 168, 176];

/// A version of the table's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableFormat {
    /// Its first four bytes.
    magic: u32,
    /// Whether addresses of functions are 32-bit distances from a base.
    pub(super) has_distances: bool,
    /// Where the offset of the names is in the header; [`None`] where all offsets are relative to the
    /// header.
    offsets: Option<usize>,
    /// Offset of a function's flags in its entry, if it has any.
    pub(super) flags: Option<usize>,
}

/// The formats, the newest first.
const FORMATS: [TableFormat; 4] = [
    // Since 1.20.
    TableFormat {
        magic: 0xffff_fff1,
        has_distances: true,
        offsets: Some(32),
        flags: Some(41),
    },
    // Since 1.18.
    TableFormat {
        magic: 0xffff_fff0,
        has_distances: true,
        offsets: Some(32),
        flags: Some(37),
    },
    // Since 1.16, which has zeros for the flags.
    TableFormat {
        magic: 0xffff_fffa,
        has_distances: false,
        offsets: Some(24),
        flags: Some(41),
    },
    // Since 1.2.
    TableFormat {
        magic: 0xffff_fffb,
        has_distances: false,
        offsets: None,
        flags: None,
    },
];

/// The table of functions of a Go program.
#[derive(Debug)]
pub struct GoTable {
    /// Its offset in the file.
    offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) format: TableFormat,
    /// Bytes of the smallest instruction.
    pub(super) quantum: u32,
    /// Number of functions.
    pub(super) count: usize,
    /// The base of distances.
    pub(super) text: u64,
    /// Offsets of the names, the stack sizes and the list of functions.
    pub(super) names: usize,
    pub(super) sizes: usize,
    functions: usize,
}

impl<S: Source> Elf<S> {
    /// The table of functions, if the Go linker has written one.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is too large.
    pub fn go_table(&self) -> Result<Option<GoTable>, Error> {
        let place = SECTIONS.into_iter().find_map(|name| {
            let section = self.section(name)?;
            Some((name, section.address, section.file_offset?, section.bytes))
        });
        if let Some((name, address, offset, bytes)) = place {
            let bytes = self.bytes_at(name, offset, bytes, MAX_BYTES)?;
            return GoTable::read(self, (address, offset), bytes);
        }
        let is_marked = MARKS.into_iter().any(|name| self.section(name).is_some());
        if self.has_sections() && !is_marked {
            return Ok(None);
        }
        for address in self.find_outside_code(MAX_SEARCHED, is_header)? {
            let bytes = self.loaded_from(address, MAX_BYTES)?;
            let offset = self.segments.file_offset(address, bytes.len() as u64);
            let place = (address, offset.unwrap_or(u64::MAX));
            if let Some(table) = GoTable::read(self, place, bytes)? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// Bytes that [`Self::go_table`] reads; 0 where that is not known in advance.
    #[must_use]
    pub fn go_table_bytes(&self) -> u64 {
        let sections = SECTIONS.into_iter().filter_map(|name| self.section(name));
        sections.map(|section| section.bytes).max().unwrap_or(0)
    }
}

/// Whether a table may start with these bytes.
fn is_header(bytes: [u8; 8]) -> bool {
    format(&bytes).is_some()
}

fn format(header: &[u8]) -> Option<TableFormat> {
    let magic = u32_at(header, 0);
    let format = FORMATS.into_iter().find(|format| format.magic == magic)?;
    matches!(header.get(4..8)?, [0, 0, 1 | 2 | 4, 8]).then_some(format)
}

impl GoTable {
    /// Reads the header of a table at an address and an offset in the file; [`None`] where it is
    /// malformed.
    fn read<S: Source>(
        elf: &Elf<S>,
        (address, offset): (u64, u64),
        bytes: Vec<u8>,
    ) -> Result<Option<Self>, Error> {
        let Some(mut table) = Self::parse(offset, bytes) else {
            return Ok(None);
        };
        if table.format.has_distances && table.text == 0 {
            let Some(text) = table.find_text(elf, address)? else {
                return Ok(None);
            };
            table.text = text;
        }
        Ok(Some(table))
    }

    fn parse(offset_in_file: u64, bytes: Vec<u8>) -> Option<Self> {
        let format = format(&bytes)?;
        let offset = |nth: usize| match format.offsets {
            Some(first) => usize::try_from(u64_at(&bytes, first + nth * ADDRESS_BYTES)).ok(),
            None => Some(0),
        };
        let functions = match format.offsets {
            Some(_) => offset(4)?,
            None => 16,
        };
        let mut table = Self {
            offset: offset_in_file,
            format,
            quantum: u32::from(*bytes.get(6)?),
            count: usize::try_from(u64_at(&bytes, 8)).ok()?,
            text: if format.has_distances {
                u64_at(&bytes, 24)
            } else {
                0
            },
            names: offset(0)?,
            sizes: offset(3)?,
            functions,
            bytes,
        };
        // The list ends with the end of the last function.
        let room = table.bytes.len().checked_sub(functions)? / table.item_bytes();
        table.count = table.count.min(room.saturating_sub(1));
        (table.count > 0).then_some(table)
    }

    /// The base of distances where the header has none: the module data that refer to the table, and
    /// agree with its first and last address, have it.
    fn find_text<S: Source>(&self, elf: &Elf<S>, address: u64) -> Result<Option<u64>, Error> {
        let (first, _) = self.item(0);
        let (last, _) = self.item(self.count);
        for module in elf.find_in_data(address.to_le_bytes(), MAX_SEARCHED)? {
            let mut values = [0; 3];
            for (value, offset) in values.iter_mut().zip(MODULE_DATA) {
                let mut bytes = [0; 8];
                if elf.initial_bytes(module.wrapping_add(offset), &mut bytes)? {
                    *value = u64::from_le_bytes(bytes);
                }
            }
            let [start, end, text] = values;
            if text != 0 && (start, end) == (text.wrapping_add(first), text.wrapping_add(last)) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// The names to which [`GoFunction::symbol`](super::GoFunction::symbol) refers, as a symbol table
    /// without symbols.
    #[must_use]
    pub fn names(&self) -> SymbolTable {
        SymbolTable {
            offset: 0,
            bytes: 0,
            names_offset: self.offset.saturating_add(self.names as u64),
            names_bytes: self.bytes.len().saturating_sub(self.names) as u64,
        }
    }

    /// The base of the offsets of functions' entries.
    pub(super) fn functions_base(&self) -> usize {
        match self.format.offsets {
            Some(_) => self.functions,
            None => 0,
        }
    }

    /// Bytes of an item of the list of functions.
    pub(super) fn item_bytes(&self) -> usize {
        if self.format.has_distances { 8 } else { 16 }
    }

    /// The start of a function and the offset of its entry, both relative to their bases.
    pub(super) fn item(&self, index: usize) -> (u64, usize) {
        let at = self.functions + index * self.item_bytes();
        if self.format.has_distances {
            let offset = u32_at(&self.bytes, at + 4) as usize;
            (u32_at(&self.bytes, at).into(), offset)
        } else {
            let offset = usize::try_from(u64_at(&self.bytes, at + 8));
            (u64_at(&self.bytes, at), offset.unwrap_or(usize::MAX))
        }
    }
}
