//! Errors of debugging information.

/// Why debugging information cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DwarfError {
    /// It could not be read.
    Unreadable,
    /// It is malformed.
    Malformed,
    /// It exceeds a limit.
    TooLarge,
    /// There is no room for its decompressed sections.
    NoRoom,
}

impl From<gimli::Error> for DwarfError {
    fn from(error: gimli::Error) -> Self {
        match error {
            gimli::Error::Io => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
