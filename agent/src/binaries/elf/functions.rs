//! The functions in a file's symbol tables, and their names.
//!
//! Invariant: a table is read in pieces and a name on request, so that only what the caller keeps
//! takes memory.

use std::collections::HashSet;

use goblin::elf::{
    SectionHeader,
    header::{EM_AARCH64, ET_REL},
    section_header::{SHF_EXECINSTR, SHN_ABS, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB},
    sym::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, st_bind, st_type},
};

use super::{
    error::Error,
    file::Elf,
    numbers::{at_most, u32_at},
    source::Source,
    symbols::{SYMBOL_BYTES, SymbolTable, defined},
};

/// Most bytes of a symbol's name; names of C++ templates can be that long.
const MAX_SYMBOL_NAME: usize = 16 << 10;

/// One of the symbol tables of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All symbols (`.symtab`), which `strip` removes.
    All,
    /// Exported symbols (`.dynsym`).
    Exported,
}

/// Visibility of a function's symbol, the widest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binding {
    /// Visible to other files, weak or not.
    Global,
    /// Visible only in its own file.
    Local,
}

/// A function, or a label that may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// First address, before the load bias is added.
    pub address: u64,
    /// Its size; 0 where the table does not say, as for many functions in assembler.
    pub bytes: u64,
    /// End of its section, if known.
    pub section_end: Option<u64>,
    /// Offset of its name in the names of the table.
    pub name: u32,
    /// Its visibility.
    pub binding: Binding,
    /// Whether it is a label without a type.
    pub is_label: bool,
}

/// Whether a name is that of a mapping symbol, which says that code (`$x`) or data (`$d`) of aarch64 begins at an address,
/// perhaps in the middle of a function.
///
/// Source: ELF for the Arm 64-bit architecture, section 5.5.4.
#[must_use]
pub fn is_mapping_symbol(name: &[u8]) -> bool {
    matches!(name, [b'$', b'x' | b'd'] | [b'$', b'x' | b'd', b'.', ..])
}

/// The names of mapping symbols in a table, by their offsets: mostly all of them are at the same one or two.
#[derive(Debug, Default)]
struct MappingSymbols {
    known: HashSet<u32>,
}

impl MappingSymbols {
    /// Most names that are kept.
    const MAX_KNOWN: usize = 64;

    /// Whether a function of the table is none but a mapping symbol.
    fn has<S: Source>(&mut self, elf: &Elf<S>, table: &SymbolTable, function: &Function) -> bool {
        if elf.machine() != EM_AARCH64 || !function.is_label || function.bytes != 0 {
            return false;
        }
        if self.known.contains(&function.name) {
            return true;
        }
        let mut start = [0; 3];
        let at = table.names_offset.saturating_add(function.name.into());
        let is_mapping = elf.fill(&mut start, at).is_ok()
            && is_mapping_symbol(start.split(|byte| *byte == 0).next().unwrap_or_default());
        if is_mapping && self.known.len() < Self::MAX_KNOWN {
            self.known.insert(function.name);
        }
        is_mapping
    }
}

impl<S: Source> Elf<S> {
    /// A symbol table, if the file has it.
    #[must_use]
    pub fn symbol_table(&self, which: Which) -> Option<SymbolTable> {
        let kind = match which {
            Which::All => SHT_SYMTAB,
            Which::Exported if !self.has_sections() => {
                return self.dynamic_symbols().ok().flatten();
            }
            Which::Exported => SHT_DYNSYM,
        };
        let symbols = self
            .sections
            .iter()
            .find(|section| section.sh_type == kind && section.sh_size != 0)?;
        let names = self.sections.get(symbols.sh_link as usize)?;
        (names.sh_type != SHT_NOBITS).then_some(SymbolTable {
            offset: symbols.sh_offset,
            bytes: symbols.sh_size,
            names_offset: names.sh_offset,
            names_bytes: names.sh_size,
        })
    }

    /// Calls `take` with each function that a table defines.
    ///
    /// # Errors
    ///
    /// When the table cannot be read.
    pub fn functions(
        &self,
        table: &SymbolTable,
        mut take: impl FnMut(Function),
    ) -> Result<(), Error> {
        let mut carried = 0;
        let mut marks = MappingSymbols::default();
        self.scan(
            table.offset,
            table.bytes,
            SYMBOL_BYTES - 1,
            |start, piece| {
                // A piece may start inside a symbol; the overlap holds its start.
                let first = start.next_multiple_of(SYMBOL_BYTES as u64).max(carried);
                let skip = at_most(first - start, piece.len());
                let (entries, _) = piece.split_at(skip).1.as_chunks();
                carried = first + (entries.len() * SYMBOL_BYTES) as u64;
                entries
                    .iter()
                    .filter_map(|entry| self.function(entry))
                    .filter(|function| !marks.has(self, table, function))
                    .for_each(&mut take);
            },
        )
    }

    fn function(&self, entry: &[u8; SYMBOL_BYTES]) -> Option<Function> {
        let symbol = defined(entry)?;
        let info = entry[4];
        let index = u16::from_le_bytes([entry[6], entry[7]]);
        let section = self.sections.get(usize::from(index));
        let is_code = |section: &SectionHeader| section.sh_flags & u64::from(SHF_EXECINSTR) != 0;
        let is_label = match st_type(info) {
            STT_FUNC | STT_GNU_IFUNC => false,
            STT_NOTYPE if u32::from(index) != SHN_ABS && section.is_some_and(is_code) => true,
            _ => return None,
        };
        let name = u32_at(entry, 0);
        // Of an object file in memory: addresses count from the start of a section.
        let start = match section {
            Some(section) if self.header.e_type == ET_REL => section.sh_addr,
            _ => 0,
        };
        (name != 0).then(|| Function {
            address: symbol.address.wrapping_add(start),
            bytes: symbol.bytes,
            section_end: section.map(|section| section.sh_addr.saturating_add(section.sh_size)),
            name,
            binding: if st_bind(info) == STB_LOCAL {
                Binding::Local
            } else {
                Binding::Global
            },
            is_label,
        })
    }

    /// The name at `offset` in the names of a table, at most 16 KiB.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn function_name(&self, table: &SymbolTable, offset: u32) -> Result<Vec<u8>, Error> {
        const PIECE: usize = 256;
        let mut name = Vec::new();
        let mut at = u64::from(offset);
        while name.len() < MAX_SYMBOL_NAME {
            let mut piece = [0; PIECE];
            let bytes = at_most(table.names_bytes.saturating_sub(at), PIECE);
            if bytes == 0 {
                break;
            }
            self.fill(&mut piece[..bytes], table.names_offset.saturating_add(at))?;
            if let Some(end) = piece[..bytes].iter().position(|&byte| byte == 0) {
                name.extend_from_slice(&piece[..end]);
                break;
            }
            name.extend_from_slice(&piece[..bytes]);
            at += bytes as u64;
        }
        Ok(name)
    }

    /// The addresses from the start of the first executable segment to the end of the last.
    #[must_use]
    pub fn code(&self) -> Option<std::ops::Range<u64>> {
        let segments = || self.segments.iter().filter(|segment| segment.is_executable);
        let start = segments().map(|segment| segment.address).min()?;
        let end = segments()
            .map(|segment| segment.address.saturating_add(segment.file_bytes))
            .max()?;
        Some(start..end)
    }
}
