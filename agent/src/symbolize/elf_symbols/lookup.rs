//! What is found at an address.

use std::num::NonZeroU32;

use crate::binaries::elf;

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolLookup {
    /// The function that was inlined last first, the one that has the address last; at least one.
    Known(Vec<SymbolFrame>),
    /// Nothing that is known.
    Unknown(NoSymbolReason),
}

/// A function, and where in it the address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolFrame {
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
pub enum NoSymbolReason {
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

impl NoSymbolReason {
    pub(super) fn of(error: &elf::Error) -> Self {
        match error {
            elf::Error::Read { .. } => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
