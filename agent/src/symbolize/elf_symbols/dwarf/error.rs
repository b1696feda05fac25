//! Why debugging information is not used.

/// Why debugging information did not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DwarfError {
    /// It could not be read.
    Unreadable,
    /// It makes no sense.
    Malformed,
    /// It is more than what is read.
    TooLarge,
}

impl From<gimli::Error> for DwarfError {
    fn from(error: gimli::Error) -> Self {
        match error {
            gimli::Error::Io => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
