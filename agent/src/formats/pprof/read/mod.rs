//! Files that the agent wrote, read again.
//!
//! What the format has no place for is told by what the encoder does: code has an address, and all
//! else is Python or stands for what is missing; the kernel, its modules and code made at run time
//! lie in mappings with names of their own; labels, processes and losses are comments.
//!
//! Invariants: the bytes are untrusted, whoever wrote them; what they take of memory is bounded, and
//! so are all numbers: the CPU time of all samples of a file has a place in 63 bits of nanoseconds.

mod comments;
mod model;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    time::{Duration, SystemTime},
};

use flate2::read::GzDecoder;

use self::comments::Comments;
use super::wire::{Fields, Malformed, Value, number};
use crate::profile::Profile;

/// Most bytes of an unpacked file. Of one with a hundred thousand deep stacks it is half of that.
const MAX_BYTES: u64 = 32 << 20;

/// Most of each table: texts, functions, locations, samples.
const MAX_ENTRIES: usize = 1 << 20;

/// What passes between two samples.
const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(1)..=Duration::from_secs(3_600);

/// What the values of samples are.
const TYPES: [(&str, &str); 2] = [("samples", "count"), ("cpu", "nanoseconds")];

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
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

impl From<Malformed> for ReadError {
    fn from(Malformed: Malformed) -> Self {
        malformed("bytes")
    }
}

fn malformed(what: &'static str) -> ReadError {
    ReadError::Malformed { what }
}

/// A file without its packing.
#[derive(Debug)]
pub struct Unpacked(Vec<u8>);

/// What can be told of a file without reading its stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the series is called that it is of.
    pub labels: BTreeMap<String, String>,
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// CPU time that one sample stands for.
    pub period: Duration,
    /// Sampling periods in all samples.
    pub samples: u64,
}

impl Head {
    /// CPU time that all samples stand for, in nanoseconds.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(self.samples, self.period).unwrap_or(u64::MAX)
    }
}

impl Unpacked {
    /// Unpacks the bytes of a file.
    ///
    /// # Errors
    ///
    /// When it is no gzip file, or a large one.
    pub fn new(file: &[u8]) -> Result<Self, ReadError> {
        let mut message = Vec::new();
        let mut unpacker = GzDecoder::new(file).take(MAX_BYTES + 1);
        unpacker
            .read_to_end(&mut message)
            .map_err(ReadError::Gzip)?;
        if message.len() as u64 > MAX_BYTES {
            return Err(ReadError::TooLarge { limit: MAX_BYTES });
        }
        Ok(Self(message))
    }

    /// What can be told without reading the stacks, at a fraction of the cost of reading them.
    ///
    /// # Errors
    ///
    /// When it is no profile that the agent wrote.
    pub fn head(&self) -> Result<Head, ReadError> {
        let outline = Outline::of(&self.0)?;
        let mut samples = 0_u64;
        for sample in Fields::of(&self.0).all(tag::SAMPLE) {
            samples = samples.saturating_add(count_of(sample)?);
        }
        check_total(samples, outline.period)?;
        Ok(Head {
            labels: outline.comments()?.labels,
            start: outline.start,
            duration: outline.duration,
            period: outline.period,
            samples,
        })
    }

    /// The profile.
    ///
    /// # Errors
    ///
    /// When it is no profile that the agent wrote.
    pub fn profile(&self) -> Result<Profile, ReadError> {
        model::read(&self.0)
    }
}

/// Numbers of the fields of a profile.
mod tag {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const TEXT: u64 = 6;
    pub(super) const TIME: u64 = 9;
    pub(super) const DURATION: u64 = 10;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
}

/// All but the samples and what they refer to.
struct Outline<'a> {
    texts: Vec<&'a [u8]>,
    comments: Vec<u64>,
    start: SystemTime,
    duration: Duration,
    period: Duration,
}

impl<'a> Outline<'a> {
    fn of(message: &'a [u8]) -> Result<Self, ReadError> {
        let mut outline = Self {
            texts: Vec::new(),
            comments: Vec::new(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            period: Duration::ZERO,
        };
        let mut types = Vec::new();
        // Of each table, by its field's number.
        let mut entries = [0; 16];
        for field in Fields::of(message) {
            let (tag, value) = field?;
            if let Some(entries) = usize::try_from(tag)
                .ok()
                .and_then(|tag| entries.get_mut(tag))
            {
                *entries += 1;
                if *entries > MAX_ENTRIES {
                    return Err(malformed("tables"));
                }
            }
            match (tag, value) {
                (tag::TEXT, Value::Bytes(text)) => outline.texts.push(text),
                (tag::COMMENT, Value::Number(index)) => outline.comments.push(index),
                (tag::COMMENT, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let index = number(&mut packed).ok_or(Malformed)?;
                        outline.comments.push(index);
                    }
                }
                (tag::SAMPLE_TYPE, Value::Bytes(kind)) => types.push(kind),
                (tag::TIME, Value::Number(time)) => {
                    outline.start = SystemTime::UNIX_EPOCH + nanoseconds(time)?;
                }
                (tag::DURATION, Value::Number(time)) => outline.duration = nanoseconds(time)?,
                (tag::PERIOD, Value::Number(time)) => outline.period = nanoseconds(time)?,
                _ => {}
            }
        }
        outline.check_types(&types)?;
        if !PERIODS.contains(&outline.period) {
            return Err(malformed("times"));
        }
        Ok(outline)
    }

    fn check_types(&self, types: &[&[u8]]) -> Result<(), ReadError> {
        let text = |index| self.text(index).unwrap_or_default();
        let is_expected = |(kind, expected): (&&[u8], (&str, &str))| {
            let [mut name, mut unit] = [0, 0];
            for field in Fields::of(kind) {
                match field {
                    Ok((1, Value::Number(index))) => name = index,
                    Ok((2, Value::Number(index))) => unit = index,
                    _ => return false,
                }
            }
            (text(name), text(unit)) == expected
        };
        let is_ours = types.len() == TYPES.len() && types.iter().zip(TYPES).all(is_expected);
        is_ours.then_some(()).ok_or(ReadError::Foreign)
    }

    /// A text of the table.
    fn text(&self, index: u64) -> Result<&'a str, ReadError> {
        let text = usize::try_from(index)
            .ok()
            .and_then(|index| self.texts.get(index));
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.ok_or_else(|| malformed("texts"))
    }

    /// The same, by an index as the schema has it.
    fn text_at(&self, index: i64) -> Result<&'a str, ReadError> {
        self.text(u64::try_from(index).map_err(|_| malformed("texts"))?)
    }

    fn comments(&self) -> Result<Comments, ReadError> {
        let mut comments = Comments::default();
        for &index in &self.comments {
            comments.add(self.text(index)?);
        }
        Ok(comments)
    }
}

/// The first value of a sample: how often.
fn count_of(sample: &[u8]) -> Result<u64, ReadError> {
    for field in Fields::of(sample) {
        let count = match field? {
            (2, Value::Number(count)) => count,
            (2, Value::Bytes(mut packed)) => number(&mut packed).ok_or(Malformed)?,
            _ => continue,
        };
        return i64::try_from(count)
            .map(i64::unsigned_abs)
            .map_err(|_| malformed("values"));
    }
    Err(malformed("values"))
}

fn nanoseconds(number: u64) -> Result<Duration, ReadError> {
    let number = i64::try_from(number).map_err(|_| malformed("times"))?;
    Ok(Duration::from_nanos(number.unsigned_abs()))
}

/// CPU time of so many samples, in nanoseconds, unless it is more than any profile has.
fn cpu_ns(samples: u64, period: Duration) -> Option<u64> {
    let cpu_ns = u128::from(samples).checked_mul(period.as_nanos())?;
    i64::try_from(cpu_ns).ok().map(i64::unsigned_abs)
}

fn check_total(samples: u64, period: Duration) -> Result<(), ReadError> {
    cpu_ns(samples, period)
        .map(|_| ())
        .ok_or_else(|| malformed("values"))
}
