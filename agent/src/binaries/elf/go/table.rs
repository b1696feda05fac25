//! The header of the table, and its list of functions.

use crate::binaries::elf::{
    numbers::{u32_at, u64_at},
    pages::Pages,
    source::Source,
};

/// Bytes of an address.
const ADDRESS_BYTES: usize = 8;

/// Bytes of the largest header.
const HEADER_BYTES: usize = 72;

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
    pub(super) flags: Option<u64>,
    /// Offset in the module data of the base of inline trees (`gofunc`), if they have one.
    pub(super) inline_trees: Option<u64>,
    /// Bytes of an inlined call, and the offset of its name; the position of the call follows it.
    pub(super) call_bytes: usize,
    pub(super) call_name: usize,
}

/// The formats, the newest first.
const FORMATS: [TableFormat; 4] = [
    // Since 1.20.
    TableFormat {
        magic: 0xffff_fff1,
        has_distances: true,
        offsets: Some(32),
        flags: Some(41),
        inline_trees: Some(320),
        call_bytes: 16,
        call_name: 4,
    },
    // Since 1.18.
    TableFormat {
        magic: 0xffff_fff0,
        has_distances: true,
        offsets: Some(32),
        flags: Some(37),
        inline_trees: Some(304),
        call_bytes: 20,
        call_name: 12,
    },
    // Since 1.16, which has zeros for the flags.
    TableFormat {
        magic: 0xffff_fffa,
        has_distances: false,
        offsets: Some(24),
        flags: Some(41),
        inline_trees: None,
        call_bytes: 20,
        call_name: 12,
    },
    // Since 1.2; files and inlined functions are not read.
    TableFormat {
        magic: 0xffff_fffb,
        has_distances: false,
        offsets: None,
        flags: None,
        inline_trees: None,
        call_bytes: 0,
        call_name: 0,
    },
];

/// Where the inline trees of functions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InlineTrees {
    /// At distances from an address.
    RelativeTo(u64),
    /// At addresses.
    Absolute,
}

/// The table of functions of a Go program.
#[derive(Debug)]
pub struct GoTable<S> {
    /// Its address.
    pub(super) address: u64,
    pub(super) pages: Pages<S>,
    pub(super) format: TableFormat,
    /// Bytes of the smallest instruction.
    pub(super) quantum: u32,
    /// Number of functions.
    pub(super) count: u64,
    /// The base of distances.
    pub(super) text: u64,
    /// Offsets of the names, of values by address, and of the list of functions.
    pub(super) names: u64,
    pub(super) values: u64,
    functions: u64,
    /// Offsets of the files of compilation units, and of the paths of files.
    pub(super) files: Option<(u64, u64)>,
    pub(super) inline_trees: Option<InlineTrees>,
}

/// Whether a table may start with these bytes.
pub(super) fn is_header(bytes: [u8; 8]) -> bool {
    format(&bytes).is_some()
}

fn format(header: &[u8]) -> Option<TableFormat> {
    let magic = u32_at(header, 0);
    let format = FORMATS.into_iter().find(|format| format.magic == magic)?;
    matches!(header.get(4..8)?, [0, 0, 1 | 2 | 4, 8]).then_some(format)
}

impl<S: Source> GoTable<S> {
    /// Reads the header of a table at an address; [`None`] where it is malformed.
    pub(super) fn parse(address: u64, pages: Pages<S>) -> Option<Self> {
        let header: [u8; HEADER_BYTES] = pages.array(0);
        let format = format(&header)?;
        let offset = |nth: usize| match format.offsets {
            Some(first) => u64_at(&header, first + nth * ADDRESS_BYTES),
            None => 0,
        };
        let functions = match format.offsets {
            Some(_) => offset(4),
            None => 16,
        };
        let mut table = Self {
            address,
            format,
            quantum: u32::from(header[6]),
            count: u64_at(&header, 8),
            text: if format.has_distances {
                u64_at(&header, 24)
            } else {
                0
            },
            names: offset(0),
            files: format.offsets.map(|_| (offset(1), offset(2))),
            values: offset(3),
            functions,
            inline_trees: None,
            pages,
        };
        // The list ends with the end of the last function.
        let room = table.pages.bytes().checked_sub(functions)? / table.item_bytes();
        table.count = table.count.min(room.saturating_sub(1));
        (table.count > 0).then_some(table)
    }

    /// Approximate bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.pages.resident()
    }

    /// Frees the bytes in memory.
    pub fn free_pages(&self) {
        self.pages.clear();
    }

    /// The base of the offsets of functions' entries.
    pub(super) fn functions_base(&self) -> u64 {
        match self.format.offsets {
            Some(_) => self.functions,
            None => 0,
        }
    }

    /// Bytes of an item of the list of functions.
    pub(super) fn item_bytes(&self) -> u64 {
        if self.format.has_distances { 8 } else { 16 }
    }

    /// The start of a function and the offset of its entry, both relative to their bases.
    pub(super) fn item(&self, index: u64) -> (u64, u64) {
        let at = self.functions.saturating_add(index * self.item_bytes());
        if self.format.has_distances {
            let item = self.pages.array::<8>(at);
            (u32_at(&item, 0).into(), u32_at(&item, 4).into())
        } else {
            let item = self.pages.array::<16>(at);
            (u64_at(&item, 0), u64_at(&item, 8))
        }
    }
}
