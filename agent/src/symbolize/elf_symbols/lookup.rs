//! The result of looking up an address.

use std::num::NonZeroU32;

use crate::binaries::elf;

/// The result of looking up an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolLookup {
    /// The functions, inlined ones first and the innermost of them at the start; at least one.
    Known(Vec<SymbolFrame>),
    /// There is no symbol.
    Unknown(NoSymbolReason),
}

/// The result of looking up an address with a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressLookup {
    /// The functions.
    pub symbols: SymbolLookup,
    /// Whether nothing was left out: inlined functions, files and lines.
    pub is_complete: bool,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolFrame {
    /// Demangled name.
    pub name: String,
    /// Source file as the compiler recorded it.
    pub file: Option<String>,
    /// Line in that file.
    pub line: Option<NonZeroU32>,
    /// First line of the function.
    pub first_line: Option<NonZeroU32>,
}

/// Why an address has no symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoSymbolReason {
    /// The file has no symbols at all.
    NoSymbols,
    /// The address is before the first symbol.
    BeforeFirst,
    /// The address is after the end of one symbol and before the next.
    Gap,
    /// The file cannot be read.
    Unreadable,
    /// The file is malformed.
    Malformed,
}

impl NoSymbolReason {
    pub(super) fn of(error: &elf::Error) -> Self {
        match error {
            elf::Error::Read { .. } => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
