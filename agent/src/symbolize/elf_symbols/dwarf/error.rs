//! Why debugging information is not used.

/// Why debugging information did not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It could not be read.
    Unreadable,
    /// It makes no sense.
    Malformed,
    /// It is more than what is read.
    TooLarge,
}

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        match error {
            gimli::Error::Io => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}
