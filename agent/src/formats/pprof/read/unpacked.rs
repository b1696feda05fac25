//! A decompressed pprof file, and its header.

use std::{
    collections::BTreeMap,
    io::Read as _,
    time::{Duration, SystemTime},
};

use flate2::read::GzDecoder;

use super::{
    error::PprofReadError,
    model,
    outline::{Outline, amount_of, check_total, tag},
};
use crate::{
    formats::pprof::wire::Fields,
    profile::{Amount, Kind, Profile},
};

/// Most bytes of a decompressed file; one with a hundred thousand deep stacks has half of that.
const MAX_BYTES: u64 = 32 << 20;

/// A decompressed pprof file.
#[derive(Debug)]
pub struct PprofFile(Vec<u8>);

/// The part of a profile that is read without its stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PprofHeader {
    /// Labels of the series that the profile belongs to.
    pub labels: BTreeMap<String, String>,
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// What it measures.
    pub kind: &'static Kind,
    /// All samples.
    pub total: Amount,
}

impl PprofFile {
    /// Decompresses a file.
    ///
    /// # Errors
    ///
    /// When it is not a gzip file, or too large.
    pub fn new(file: &[u8]) -> Result<Self, PprofReadError> {
        let mut message = Vec::new();
        let mut unpacker = GzDecoder::new(file).take(MAX_BYTES + 1);
        unpacker
            .read_to_end(&mut message)
            .map_err(PprofReadError::Gzip)?;
        if message.len() as u64 > MAX_BYTES {
            return Err(PprofReadError::TooLarge { limit: MAX_BYTES });
        }
        Ok(Self(message))
    }

    /// Reads the header, at a fraction of the cost of the profile.
    ///
    /// # Errors
    ///
    /// When it is not a profile that the agent wrote.
    pub fn head(&self) -> Result<PprofHeader, PprofReadError> {
        let outline = Outline::of(&self.0)?;
        let mut total = Amount::default();
        for sample in Fields::of(&self.0).all(tag::SAMPLE) {
            total += amount_of(sample, outline.kind)?;
        }
        check_total(total)?;
        Ok(PprofHeader {
            labels: outline.comments()?.labels,
            start: outline.start,
            duration: outline.duration,
            kind: outline.kind,
            total,
        })
    }

    /// Reads the profile.
    ///
    /// # Errors
    ///
    /// When it is not a profile that the agent wrote.
    pub fn profile(&self) -> Result<Profile, PprofReadError> {
        model::read(&self.0)
    }
}

#[cfg(test)]
mod tests;
