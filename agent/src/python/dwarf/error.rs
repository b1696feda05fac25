//! Why debugging information gives no layout.

use thiserror::Error;

/// Why it was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// There is none.
    #[error("there is no debugging information, neither in the file nor in one of its own")]
    Absent,
    /// It cannot be read.
    #[error("the debugging information is damaged")]
    Damaged,
    /// It cannot be understood.
    #[error("the debugging information is malformed: {0}")]
    Malformed(#[from] gimli::Error),
    /// It is compressed with something other than zlib.
    #[error("the debugging information is compressed in a way that is not understood")]
    Compressed,
    /// It is larger than what is read.
    #[error("the debugging information has {bytes} bytes too many to be read")]
    TooLarge {
        /// The size of the section that was too much.
        bytes: u64,
    },
    /// It has more entries than are looked at.
    #[error("the debugging information has too many entries to be looked through")]
    TooMany,
    /// It lacks something.
    #[error("the debugging information does not tell {structure}.{field}")]
    Missing {
        /// The structure.
        structure: &'static str,
        /// The member.
        field: &'static str,
    },
    /// A member is where it cannot be read.
    #[error("the debugging information has {structure} larger than what is read")]
    OutOfBounds {
        /// The structure.
        structure: &'static str,
    },
    /// It is that of another build.
    #[error(
        "the debugging information is of another build: its _PyRuntime has {found} bytes, that \
         of the file {actual}"
    )]
    OtherBuild {
        /// Its size by the debugging information.
        found: u64,
        /// Its size in the file.
        actual: u64,
    },
}
