//! Finding the table and reading its head.

use crate::binaries::elf::{
    error::Error,
    file::Elf,
    numbers::{u32_at, u64_at},
    source::Source,
    symbols::SymbolTable,
};

/// The names of its section; the second where the program may be loaded anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Sections that tell that the Go linker has made a file, where another one has merged the above
/// with others.
const MARKS: [&str; 2] = [".note.go.buildid", ".go.buildinfo"];

/// Most bytes of the table that are read, since it is kept in memory for that time; that of a
/// program of 100 MB has 30 MB.
const MAX_BYTES: u64 = 96 << 20;

/// Most bytes of data in which it is searched.
const MAX_SEARCHED: u64 = 256 << 20;

/// Bytes of an address.
const ADDRESS_BYTES: usize = 8;

/// Where in the description of a module, which starts with the address of its table, its first
/// and last address plus one are, and that from which distances are counted.
const MODULE: [u64; 3] = [160, 168, 176];

/// How the table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// What it starts with.
    magic: u32,
    /// Whether functions are at distances of four bytes, not at addresses.
    pub(super) has_distances: bool,
    /// Where the offset of the names is in the head; [`None`] where all is counted from the head.
    offsets: Option<usize>,
    /// Where in a function's description its flags are, if there are any.
    pub(super) flags: Option<usize>,
}

/// The layouts, the newest first.
const LAYOUTS: [Layout; 4] = [
    // Since 1.20.
    Layout {
        magic: 0xffff_fff1,
        has_distances: true,
        offsets: Some(32),
        flags: Some(41),
    },
    // Since 1.18.
    Layout {
        magic: 0xffff_fff0,
        has_distances: true,
        offsets: Some(32),
        flags: Some(37),
    },
    // Since 1.16, which has zeros for the flags.
    Layout {
        magic: 0xffff_fffa,
        has_distances: false,
        offsets: Some(24),
        flags: Some(41),
    },
    // Since 1.2.
    Layout {
        magic: 0xffff_fffb,
        has_distances: false,
        offsets: None,
        flags: None,
    },
];

/// The table of a file.
#[derive(Debug)]
pub struct GoTable {
    /// Where in the file it is.
    offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) layout: Layout,
    /// Bytes of the smallest instruction.
    pub(super) quantum: u32,
    /// How many functions there are.
    pub(super) count: usize,
    /// What distances are counted from.
    pub(super) text: u64,
    /// Where names, stack sizes and the functions are.
    pub(super) names: usize,
    pub(super) sizes: usize,
    functions: usize,
}

impl<S: Source> Elf<S> {
    /// The table that the Go linker leaves of its functions, if it has made the file.
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
        for address in self.find_outside_code(MAX_SEARCHED, is_head)? {
            let bytes = self.loaded_from(address, MAX_BYTES)?;
            let offset = self.segments.file_offset(address, bytes.len() as u64);
            let place = (address, offset.unwrap_or(u64::MAX));
            if let Some(table) = GoTable::read(self, place, bytes)? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// How many bytes [`Self::go_table`] has to read, where that is known in advance.
    #[must_use]
    pub fn go_table_bytes(&self) -> u64 {
        let sections = SECTIONS.into_iter().filter_map(|name| self.section(name));
        sections.map(|section| section.bytes).max().unwrap_or(0)
    }
}

/// Whether a table may start with this.
fn is_head(bytes: [u8; 8]) -> bool {
    layout(&bytes).is_some()
}

fn layout(head: &[u8]) -> Option<Layout> {
    let magic = u32_at(head, 0);
    let layout = LAYOUTS.into_iter().find(|layout| layout.magic == magic)?;
    matches!(head.get(4..8)?, [0, 0, 1 | 2 | 4, 8]).then_some(layout)
}

impl GoTable {
    /// Reads the head of a table at an address and an offset in the file; [`None`] if it makes no
    /// sense.
    fn read<S: Source>(
        elf: &Elf<S>,
        (address, offset): (u64, u64),
        bytes: Vec<u8>,
    ) -> Result<Option<Self>, Error> {
        let Some(mut table) = Self::parse(offset, bytes) else {
            return Ok(None);
        };
        if table.layout.has_distances && table.text == 0 {
            let Some(text) = table.find_text(elf, address)? else {
                return Ok(None);
            };
            table.text = text;
        }
        Ok(Some(table))
    }

    fn parse(offset_in_file: u64, bytes: Vec<u8>) -> Option<Self> {
        let layout = layout(&bytes)?;
        let offset = |nth: usize| match layout.offsets {
            Some(first) => usize::try_from(u64_at(&bytes, first + nth * ADDRESS_BYTES)).ok(),
            None => Some(0),
        };
        let functions = match layout.offsets {
            Some(_) => offset(4)?,
            None => 16,
        };
        let mut table = Self {
            offset: offset_in_file,
            layout,
            quantum: u32::from(*bytes.get(6)?),
            count: usize::try_from(u64_at(&bytes, 8)).ok()?,
            text: if layout.has_distances {
                u64_at(&bytes, 24)
            } else {
                0
            },
            names: offset(0)?,
            sizes: offset(3)?,
            functions,
            bytes,
        };
        // The end of the last one is behind it.
        let room = table.bytes.len().checked_sub(functions)? / table.entry_bytes();
        table.count = table.count.min(room.saturating_sub(1));
        (table.count > 0).then_some(table)
    }

    /// What distances are counted from, where the head does not say: it stands in the description
    /// of the module, with which it has to agree.
    fn find_text<S: Source>(&self, elf: &Elf<S>, address: u64) -> Result<Option<u64>, Error> {
        let (first, _) = self.entry(0);
        let (last, _) = self.entry(self.count);
        for module in elf.find_in_data(address.to_le_bytes(), MAX_SEARCHED)? {
            let mut values = [0; 3];
            for (value, offset) in values.iter_mut().zip(MODULE) {
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

    /// Where the names are that [`GoFunction::symbol`](super::GoFunction::symbol) refers to.
    #[must_use]
    pub fn names(&self) -> SymbolTable {
        SymbolTable {
            offset: 0,
            bytes: 0,
            names_offset: self.offset.saturating_add(self.names as u64),
            names_bytes: self.bytes.len().saturating_sub(self.names) as u64,
        }
    }

    /// What the descriptions of functions are counted from.
    pub(super) fn functions_base(&self) -> usize {
        match self.layout.offsets {
            Some(_) => self.functions,
            None => 0,
        }
    }

    /// Bytes of an entry of the list of functions.
    pub(super) fn entry_bytes(&self) -> usize {
        if self.layout.has_distances { 8 } else { 16 }
    }

    /// The start of a function and where its description is, both to be added to something.
    pub(super) fn entry(&self, index: usize) -> (u64, usize) {
        let at = self.functions + index * self.entry_bytes();
        if self.layout.has_distances {
            let offset = u32_at(&self.bytes, at + 4) as usize;
            (u32_at(&self.bytes, at).into(), offset)
        } else {
            let offset = usize::try_from(u64_at(&self.bytes, at + 8));
            (u64_at(&self.bytes, at), offset.unwrap_or(usize::MAX))
        }
    }
}
