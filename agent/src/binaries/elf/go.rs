//! The table that the Go linker leaves of its functions (`.gopclntab`): where each is, what it is
//! called, and how much of the stack it has in use at each of its instructions.
//!
//! The running program needs it, so that `strip` and `-ldflags='-s -w'` leave it alone.
//!
//! Invariants: the bytes are untrusted: no value in them makes this panic, and what is looked
//! through for one function is bounded by the function's size. What is not there reads as zero.
//!
//! Sources: "Go 1.2 Runtime Symbol Information" and, for what changed since, Go's
//! `debug/gosym/pclntab.go`, `runtime/symtab.go` and `runtime/runtime2.go` of 1.16 to 1.26.

use std::ops::Range;

use super::{Binding, Elf, Error, Function, Source, SymbolTable, half, word};

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

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

/// Bytes of an address.
const ADDRESS_BYTES: usize = 8;

/// Where in the description of a module, which starts with the address of its table, its first
/// and last address plus one are, and that from which distances are counted.
const MODULE: [u64; 3] = [160, 168, 176];

/// How the table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// What it starts with.
    magic: u32,
    /// Whether functions are at distances of four bytes, not at addresses.
    has_distances: bool,
    /// Where the offset of the names is in the head; [`None`] where all is counted from the head.
    offsets: Option<usize>,
    /// Where in a function's description its flags are, if there are any.
    flags: Option<usize>,
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
    bytes: Vec<u8>,
    layout: Layout,
    /// Bytes of the smallest instruction.
    quantum: u32,
    /// How many functions there are.
    count: usize,
    /// What distances are counted from.
    text: u64,
    /// Where names, stack sizes and the functions are.
    names: usize,
    sizes: usize,
    functions: usize,
}

/// A function of Go, or one written in its assembler.
#[derive(Clone, Copy, Debug)]
pub struct GoFunction<'a> {
    table: &'a GoTable,
    /// Its addresses before the load bias is added, with what lies between it and the next.
    pub start: u64,
    /// See [`start`](Self::start).
    pub end: u64,
    /// Where its description is.
    at: usize,
}

/// How much of the stack a function has in use, return address not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSize {
    /// At which addresses.
    pub range: Range<u64>,
    /// In bytes.
    pub bytes: i32,
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
    let magic = half(head, 0);
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
            Some(first) => usize::try_from(word(&bytes, first + nth * ADDRESS_BYTES)).ok(),
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
            count: usize::try_from(word(&bytes, 8)).ok()?,
            text: if layout.has_distances {
                word(&bytes, 24)
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

    /// The functions, in the order of their addresses if the table is as it should be.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction<'_>> {
        (0..self.count).filter_map(|index| {
            let (start, at) = self.entry(index);
            let (end, _) = self.entry(index + 1);
            let start = self.text.checked_add(start)?;
            let end = self.text.checked_add(end)?;
            let at = self.functions_base().checked_add(at)?;
            (start < end).then_some(GoFunction {
                table: self,
                start,
                end,
                at,
            })
        })
    }

    /// Where the names are that [`GoFunction::symbol`] refers to.
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
    fn functions_base(&self) -> usize {
        match self.layout.offsets {
            Some(_) => self.functions,
            None => 0,
        }
    }

    /// Bytes of an entry of the list of functions.
    fn entry_bytes(&self) -> usize {
        if self.layout.has_distances { 8 } else { 16 }
    }

    /// The start of a function and where its description is, both to be added to something.
    fn entry(&self, index: usize) -> (u64, usize) {
        let at = self.functions + index * self.entry_bytes();
        if self.layout.has_distances {
            let offset = half(&self.bytes, at + 4) as usize;
            (half(&self.bytes, at).into(), offset)
        } else {
            let offset = usize::try_from(word(&self.bytes, at + 8));
            (word(&self.bytes, at), offset.unwrap_or(usize::MAX))
        }
    }
}

impl<'a> GoFunction<'a> {
    /// Its name with its package, such as `runtime.mcall`; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        let table = self.table;
        let start = table.names.saturating_add(self.number(1) as usize);
        let rest = table.bytes.get(start..).unwrap_or_default();
        let rest = rest.get(..MAX_NAME).unwrap_or(rest);
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// What a symbol of it would be.
    #[must_use]
    pub fn symbol(&self) -> Function {
        Function {
            address: self.start,
            bytes: self.end - self.start,
            section_end: None,
            name: self.number(1),
            binding: Binding::Global,
            is_label: false,
        }
    }

    /// Whether nothing has called it: a stack ends with it.
    #[must_use]
    pub fn is_outermost(&self) -> bool {
        self.flags() & 1 != 0
    }

    /// Whether it sets the stack pointer in a way that [`Self::stack_sizes`] does not tell.
    #[must_use]
    pub fn sets_stack_pointer(&self) -> bool {
        self.flags() & 2 != 0
    }

    /// Whether it is written in assembler; [`None`] where the table does not tell.
    #[must_use]
    pub fn is_assembly(&self) -> Option<bool> {
        let tells = self.table.layout.has_distances;
        tells.then(|| self.flags() & 4 != 0)
    }

    /// How much of the stack it uses, in the order of addresses without a gap; nothing where that
    /// is not known.
    #[must_use]
    pub fn stack_sizes(&self) -> StackSizes<'a> {
        let table = self.table;
        let start = match self.number(4) as usize {
            0 => usize::MAX,
            offset => table.sizes.saturating_add(offset),
        };
        StackSizes {
            rest: table.bytes.get(start..).unwrap_or_default(),
            quantum: table.quantum,
            position: self.start,
            end: self.end,
            bytes: -1,
            is_first: true,
        }
    }

    fn flags(&self) -> u8 {
        let at = self.table.layout.flags;
        at.and_then(|at| self.table.bytes.get(self.at.checked_add(at)?))
            .copied()
            .unwrap_or(0)
    }

    /// The nth of the numbers of four bytes that follow its start.
    fn number(&self, nth: usize) -> u32 {
        let start = self.table.entry_bytes() / 2;
        let at = self.at.saturating_add(start + (nth - 1) * 4);
        half(&self.table.bytes, at)
    }
}

/// See [`GoFunction::stack_sizes`].
#[derive(Clone, Debug)]
pub struct StackSizes<'a> {
    /// Pairs of differences: of the value, then of the address up to which it holds.
    rest: &'a [u8],
    quantum: u32,
    position: u64,
    end: u64,
    bytes: i32,
    is_first: bool,
}

impl StackSizes<'_> {
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for nth in 0..5 {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u32::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for StackSizes<'_> {
    type Item = StackSize;

    fn next(&mut self) -> Option<StackSize> {
        if self.position >= self.end {
            return None;
        }
        let value = self.number()?;
        if value == 0 && !self.is_first {
            return None;
        }
        self.is_first = false;
        // The lowest bit is the sign.
        let difference = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        self.bytes = self.bytes.checked_add(difference)?;
        let instructions = self.number().filter(|count| *count > 0)?;
        let start = self.position;
        let length = u64::from(instructions) * u64::from(self.quantum);
        self.position = start.saturating_add(length).min(self.end);
        Some(StackSize {
            range: start..self.position,
            bytes: self.bytes,
        })
    }
}
