//! Errors of reading a layout from debugging information.

use thiserror::Error;

/// Why debugging information gives no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no debugging information.
    #[error("there is no debugging information, neither in the file nor in a separate one")]
    Absent,
    /// The sections are malformed.
    #[error("the sections with debugging information are malformed")]
    Damaged,
    /// The DWARF is malformed.
    #[error("the debugging information is malformed: {0}")]
    Malformed(#[from] gimli::Error),
    /// It is compressed with something other than zlib.
    #[error("the compression of the debugging information is not supported")]
    Compressed,
    /// It exceeds the limit.
    #[error("the debugging information is too large: a section of {bytes} bytes exceeds the limit")]
    TooLarge {
        /// Size of the section that exceeds the limit.
        bytes: u64,
    },
    /// It has more entries than the limit.
    #[error("the debugging information has too many entries")]
    TooMany,
    /// A member is missing.
    #[error("the debugging information does not contain {structure}.{field}")]
    Missing {
        /// The structure.
        structure: &'static str,
        /// The member.
        field: &'static str,
    },
    /// A member is beyond the bytes that are read of its structure.
    #[error("a member of {structure} is beyond the bytes that are read of it")]
    OutOfBounds {
        /// The structure.
        structure: &'static str,
    },
    /// It belongs to another build.
    #[error(
        "the debugging information belongs to another build: _PyRuntime has {found} bytes there \
         and {actual} in the file"
    )]
    OtherBuild {
        /// Size of `_PyRuntime` in the debugging information.
        found: u64,
        /// Size of `_PyRuntime` in the file.
        actual: u64,
    },
}
