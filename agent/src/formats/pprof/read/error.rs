//! Errors of reading pprof files.

use std::io;

use crate::{formats::pprof::wire::MalformedMessage, text::printable};

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PprofReadError {
    /// The file could not be decompressed.
    #[error("it is not a complete gzip file: {0}")]
    Gzip(#[source] io::Error),
    /// The decompressed file is too large.
    #[error("it is larger than {limit} bytes when decompressed")]
    TooLarge {
        /// Most bytes of a decompressed file.
        limit: u64,
    },
    /// It is not a profile, or not one that the agent wrote.
    #[error("it is not a profile written by agent")]
    Foreign,
    /// It has no values of the type that is asked for.
    #[error("it has no values of type {}: choose one of {}", printable(wanted), printable(&known.join(", ")))]
    NoType {
        /// The type.
        wanted: String,
        /// The types that it has.
        known: Vec<String>,
    },
    /// Values are below zero.
    #[error("it has values below zero, as the difference of two profiles has")]
    Negative,
    /// A part of the file is malformed.
    #[error("its {what} are malformed")]
    Malformed {
        /// The part, in the plural.
        what: &'static str,
    },
}

impl From<MalformedMessage> for PprofReadError {
    fn from(MalformedMessage: MalformedMessage) -> Self {
        malformed("bytes")
    }
}

pub(super) fn malformed(what: &'static str) -> PprofReadError {
    PprofReadError::Malformed { what }
}
