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
    outline::{Outline, Reading, amount_of, check_total, tag},
};
use crate::{
    formats::pprof::wire::Fields,
    profile::{Amount, Kind, Profile},
};

/// Most bytes of a decompressed file; one with a hundred thousand deep stacks has half of that.
const MAX_BYTES: u64 = 32 << 20;

/// Most bytes of a decompressed file that a person names.
const MAX_NAMED_BYTES: u64 = 64 << 20;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

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

/// A profile that any tool may have written.
#[derive(Clone, Debug)]
pub struct PprofProfile {
    /// The profile.
    pub profile: Profile,
    /// The types of values that the file has.
    pub sample_types: Vec<String>,
    /// Index of the one that the profile has.
    pub sample_type: usize,
}

impl PprofFile {
    /// Most bytes of a file of any tool, compressed or not.
    pub const MAX_BYTES_OF_ANY_TOOL: u64 = MAX_NAMED_BYTES;

    /// Decompresses a file of the agent.
    ///
    /// # Errors
    ///
    /// When it is not a gzip file, or too large.
    pub fn new(file: &[u8]) -> Result<Self, PprofReadError> {
        unpacked(file, MAX_BYTES).map(Self)
    }

    /// Decompresses a file of any tool, if it is compressed.
    ///
    /// # Errors
    ///
    /// When it is not a complete gzip file, or too large.
    pub fn of_any_tool(file: Vec<u8>) -> Result<Self, PprofReadError> {
        if file.starts_with(&GZIP) {
            unpacked(&file, MAX_NAMED_BYTES).map(Self)
        } else {
            Ok(Self(file))
        }
    }

    /// Reads the header, at a fraction of the cost of the profile.
    ///
    /// # Errors
    ///
    /// When it is not a profile that the agent wrote.
    pub fn head(&self) -> Result<PprofHeader, PprofReadError> {
        let outline = Outline::of(&self.0, Reading::Own)?;
        let mut total = Amount::default();
        for sample in Fields::of(&self.0).all(tag::SAMPLE) {
            total += amount_of(sample, outline.columns)?;
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
        let (profile, _) = model::read(&self.0, Reading::Own)?;
        Ok(profile)
    }

    /// Reads the profile that any tool may have written: the values of the type with this name, else of
    /// that which is shown by default.
    ///
    /// # Errors
    ///
    /// When it is not a profile, or has no values of the type.
    pub fn any_profile(&self, sample_type: Option<&str>) -> Result<PprofProfile, PprofReadError> {
        let (profile, (sample_types, sample_type)) =
            model::read(&self.0, Reading::Any { sample_type })?;
        Ok(PprofProfile {
            profile,
            sample_types,
            sample_type,
        })
    }
}

/// The content of a gzip file.
fn unpacked(file: &[u8], limit: u64) -> Result<Vec<u8>, PprofReadError> {
    let mut message = Vec::new();
    let mut unpacker = GzDecoder::new(file).take(limit + 1);
    unpacker
        .read_to_end(&mut message)
        .map_err(PprofReadError::Gzip)?;
    if message.len() as u64 > limit {
        return Err(PprofReadError::TooLarge { limit });
    }
    Ok(message)
}

#[cfg(test)]
mod tests;
