//! Why an ELF file could not be read.

use std::io;

use thiserror::Error;

/// Why an ELF file could not be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The bytes could not be got.
    #[error("cannot read {bytes} bytes at {offset}")]
    Read {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("not an ELF file")]
    NotElf,
    /// It is for another kind of machine.
    #[error("an ELF file, but not a 64-bit little-endian one")]
    OtherClass,
    /// The headers make no sense.
    #[error("malformed {what}")]
    Malformed {
        /// Which.
        what: &'static str,
        /// How.
        source: goblin::error::Error,
    },
    /// A section is compressed in another way than with zlib or zstd, or not as it says.
    #[error("{what} is compressed in a way that is not understood")]
    Compressed {
        /// Which.
        what: &'static str,
    },
    /// Something is larger than what is read.
    #[error("{what} of {bytes} bytes, more than {limit}")]
    TooLarge {
        /// Which.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
}
