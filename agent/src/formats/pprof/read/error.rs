//! Why a file is not read.

use std::io;

use crate::formats::pprof::wire::MalformedMessage;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum PprofReadError {
    /// It cannot be unpacked.
    #[error("it is no whole gzip file: {0}")]
    Gzip(#[source] io::Error),
    /// There is too much in it.
    #[error("it is larger than {limit} bytes when it is unpacked")]
    TooLarge {
        /// Most bytes that are read.
        limit: u64,
    },
    /// It is something else, or something else has written it.
    #[error("it is no profile of CPU time that agent wrote")]
    Foreign,
    /// It cannot be understood.
    #[error("its {what} make no sense")]
    Malformed {
        /// What of it.
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
