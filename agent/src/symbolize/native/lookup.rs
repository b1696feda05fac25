//! What is found at an address.

use std::num::NonZeroU32;

use crate::binaries::elf;

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
    pub(super) fn of(error: &elf::Error) -> Self {
        match error {
            elf::Error::Read { .. } => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
