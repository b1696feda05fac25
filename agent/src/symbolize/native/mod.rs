//! Addresses in an ELF file → functions, files and lines.
//!
//! Invariants: the file is untrusted: nothing in it makes this panic, recurse without a bound or
//! take more memory than [`Limits`] say; what is not known is data, with the reason for it. No
//! file is mapped: one that is cut short while it is mapped kills its reader.

mod table;

use std::num::NonZeroU32;

use crate::elf::{self, Elf, Source, Which};

use super::name;
use table::Table;

/// What is taken from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most functions that are kept, 12 bytes each.
    pub functions: usize,
    /// Whether debugging information is read, for inlined functions, files and lines.
    pub inlines: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            functions: 2_000_000,
            inlines: true,
        }
    }
}

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The function that was inlined last first, the one that has the address last; at least one.
    Known(Vec<Frame>),
    /// Nothing that is known.
    Unknown(Reason),
}

/// A function, and where in it the address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name in the words of its language.
    pub name: String,
    /// Source file, as the compiler was told it.
    pub file: Option<String>,
    /// Line in that file.
    pub line: Option<NonZeroU32>,
    /// First line of the function.
    pub first_line: Option<NonZeroU32>,
}

/// Why nothing is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The file has no symbols at all.
    NoSymbols,
    /// It is before the first symbol.
    BeforeFirst,
    /// It is after the end of one symbol and before the next.
    Gap,
    /// The file cannot be read.
    Unreadable,
    /// What the file says makes no sense.
    Malformed,
}

impl Reason {
    fn of(error: &elf::Error) -> Self {
        match error {
            elf::Error::Read { .. } => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}

/// What is known of the functions of a file.
#[derive(Debug)]
pub struct Symbols<S> {
    own: Option<Elf<S>>,
    /// The file with what was stripped off the file.
    debug: Option<Elf<S>>,
    tables: Vec<(Origin, Table)>,
    /// Why there are no functions, if there are none.
    reason: Reason,
}

/// Which file a table is of.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Own,
    Debug,
}

impl<S: Source> Symbols<S> {
    /// Reads the functions of a file; `debug` finds the file with what was stripped off it, and is
    /// only asked where that can be of use.
    pub fn load(
        elf: Elf<S>,
        debug: impl FnOnce(&Elf<S>) -> Option<Elf<S>>,
        limits: &Limits,
    ) -> Self {
        let is_whole =
            elf.symbol_table(Which::All).is_some() && (elf.has_debug_info() || !limits.inlines);
        let debug = if is_whole { None } else { debug(&elf) };
        let mut symbols = Self {
            own: Some(elf),
            debug,
            tables: Vec::new(),
            reason: Reason::NoSymbols,
        };
        for (origin, which) in [
            (Origin::Own, Which::All),
            (Origin::Debug, Which::All),
            (Origin::Own, Which::Exported),
        ] {
            match symbols.table(origin, which, limits) {
                Ok(Some(table)) => {
                    symbols.tables.push((origin, table));
                    break;
                }
                Ok(None) => {}
                Err(error) => symbols.reason = Reason::of(&error),
            }
        }
        symbols
    }

    /// Of a file of which nothing can be known.
    #[must_use]
    pub fn none(reason: Reason) -> Self {
        Self {
            own: None,
            debug: None,
            tables: Vec::new(),
            reason,
        }
    }

    fn table(
        &self,
        origin: Origin,
        which: Which,
        limits: &Limits,
    ) -> Result<Option<Table>, elf::Error> {
        let Some(elf) = self.elf(origin) else {
            return Ok(None);
        };
        elf.symbol_table(which)
            .map(|place| Table::read(elf, place, limits.functions))
            .transpose()
    }

    fn elf(&self, origin: Origin) -> Option<&Elf<S>> {
        match origin {
            Origin::Own => self.own.as_ref(),
            Origin::Debug => self.debug.as_ref(),
        }
    }

    /// What is at `address`, which is one of the file itself, before the load bias is added, and
    /// lies in the instruction that is meant: of a call not where it returns to, but before.
    pub fn find(&mut self, address: u64) -> Found {
        let mut reason = self.reason;
        for (origin, table) in &self.tables {
            let Some(elf) = self.elf(*origin) else {
                continue;
            };
            match table.find(elf, address) {
                Ok((_, symbol)) => {
                    return Found::Known(vec![Frame {
                        name: name::readable(&symbol),
                        file: None,
                        line: None,
                        first_line: None,
                    }]);
                }
                Err(other) => reason = other,
            }
        }
        Found::Unknown(reason)
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(|(_, table)| table.bytes());
        size_of::<Self>() + tables.sum::<usize>()
    }

    /// Lets go of what can be read again.
    pub fn shrink(&mut self) {}
}
