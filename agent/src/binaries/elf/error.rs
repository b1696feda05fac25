//! Why an ELF file could not be read.

use std::io;

use thiserror::Error;

/// Why an ELF file could not be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The bytes could not be read.
    #[error("cannot read {bytes} bytes at {offset}")]
    Read {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// The error of the call.
        source: io::Error,
    },
    /// The file is no ELF file.
    #[error("not an ELF file")]
    NotElf,
    /// The file is of another class or byte order.
    #[error("an ELF file, but not a 64-bit little-endian one")]
    OtherClass,
    /// The headers are malformed.
    #[error("malformed {what}")]
    Malformed {
        /// Which headers.
        what: &'static str,
        /// The parser's error.
        source: goblin::error::Error,
    },
    /// A section is compressed by another method than zlib or zstd, or its data are malformed.
    #[error("{what} is compressed by an unsupported method, or malformed")]
    Compressed {
        /// Name of the section.
        what: &'static str,
    },
    /// Something exceeds its limit.
    #[error("{what} of {bytes} bytes, more than {limit}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// Its limit.
        limit: u64,
    },
}
