//! The outline of a pprof file: everything but samples, and what samples refer to.

use std::time::{Duration, SystemTime};

use super::{
    comments::Comments,
    error::{PprofReadError, malformed},
};
use crate::formats::pprof::wire::{FieldValue, Fields, MalformedMessage, number};

/// Most entries of a table: strings, functions, locations, samples.
const MAX_ENTRIES: usize = 1 << 20;

/// Valid sampling periods.
const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(1)..=Duration::from_secs(3_600);

/// Types and units of the values of samples.
const TYPES: [(&str, &str); 2] = [("samples", "count"), ("cpu", "nanoseconds")];

/// Field numbers of a profile.
pub(super) mod tag {
    pub(in super::super) const SAMPLE_TYPE: u64 = 1;
    pub(in super::super) const SAMPLE: u64 = 2;
    pub(in super::super) const MAPPING: u64 = 3;
    pub(in super::super) const LOCATION: u64 = 4;
    pub(in super::super) const FUNCTION: u64 = 5;
    pub(in super::super) const TEXT: u64 = 6;
    pub(in super::super) const TIME: u64 = 9;
    pub(in super::super) const DURATION: u64 = 10;
    pub(in super::super) const PERIOD: u64 = 12;
    pub(in super::super) const COMMENT: u64 = 13;
}

/// Strings, comments and times of a file.
pub(super) struct Outline<'a> {
    texts: Vec<&'a [u8]>,
    comments: Vec<u64>,
    pub(super) start: SystemTime,
    pub(super) duration: Duration,
    pub(super) period: Duration,
}

impl<'a> Outline<'a> {
    pub(super) fn of(message: &'a [u8]) -> Result<Self, PprofReadError> {
        let mut outline = Self {
            texts: Vec::new(),
            comments: Vec::new(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            period: Duration::ZERO,
        };
        let mut types = Vec::new();
        // Number of entries, by field number.
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
                (tag::TEXT, FieldValue::Bytes(text)) => outline.texts.push(text),
                (tag::COMMENT, FieldValue::Number(index)) => outline.comments.push(index),
                (tag::COMMENT, FieldValue::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let index = number(&mut packed).ok_or(MalformedMessage)?;
                        outline.comments.push(index);
                    }
                }
                (tag::SAMPLE_TYPE, FieldValue::Bytes(kind)) => types.push(kind),
                (tag::TIME, FieldValue::Number(time)) => {
                    outline.start = SystemTime::UNIX_EPOCH + nanoseconds(time)?;
                }
                (tag::DURATION, FieldValue::Number(time)) => outline.duration = nanoseconds(time)?,
                (tag::PERIOD, FieldValue::Number(time)) => outline.period = nanoseconds(time)?,
                _ => {}
            }
        }
        outline.check_types(&types)?;
        if !PERIODS.contains(&outline.period) {
            return Err(malformed("times"));
        }
        Ok(outline)
    }

    fn check_types(&self, types: &[&[u8]]) -> Result<(), PprofReadError> {
        let text = |index| self.text(index).unwrap_or_default();
        let is_expected = |(kind, expected): (&&[u8], (&str, &str))| {
            let [mut name, mut unit] = [0, 0];
            for field in Fields::of(kind) {
                match field {
                    Ok((1, FieldValue::Number(index))) => name = index,
                    Ok((2, FieldValue::Number(index))) => unit = index,
                    _ => return false,
                }
            }
            (text(name), text(unit)) == expected
        };
        let is_ours = types.len() == TYPES.len() && types.iter().zip(TYPES).all(is_expected);
        is_ours.then_some(()).ok_or(PprofReadError::Foreign)
    }

    /// A string of the table.
    fn text(&self, index: u64) -> Result<&'a str, PprofReadError> {
        let text = usize::try_from(index)
            .ok()
            .and_then(|index| self.texts.get(index));
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.ok_or_else(|| malformed("texts"))
    }

    /// A string of the table, by an index of the schema's type.
    pub(super) fn text_at(&self, index: i64) -> Result<&'a str, PprofReadError> {
        self.text(u64::try_from(index).map_err(|_| malformed("texts"))?)
    }

    pub(super) fn comments(&self) -> Result<Comments, PprofReadError> {
        let mut comments = Comments::default();
        for &index in &self.comments {
            comments.add(self.text(index)?);
        }
        Ok(comments)
    }
}

/// The first value of a sample: its count.
pub(super) fn count_of(sample: &[u8]) -> Result<u64, PprofReadError> {
    for field in Fields::of(sample) {
        let count = match field? {
            (2, FieldValue::Number(count)) => count,
            (2, FieldValue::Bytes(mut packed)) => number(&mut packed).ok_or(MalformedMessage)?,
            _ => continue,
        };
        return i64::try_from(count)
            .map(i64::unsigned_abs)
            .map_err(|_| malformed("values"));
    }
    Err(malformed("values"))
}

fn nanoseconds(number: u64) -> Result<Duration, PprofReadError> {
    let number = i64::try_from(number).map_err(|_| malformed("times"))?;
    Ok(Duration::from_nanos(number.unsigned_abs()))
}

/// CPU time of a number of samples, in nanoseconds; [`None`] if it exceeds 63 bits.
pub(super) fn cpu_ns(samples: u64, period: Duration) -> Option<u64> {
    let cpu_ns = u128::from(samples).checked_mul(period.as_nanos())?;
    i64::try_from(cpu_ns).ok().map(i64::unsigned_abs)
}

pub(super) fn check_total(samples: u64, period: Duration) -> Result<(), PprofReadError> {
    cpu_ns(samples, period)
        .map(|_| ())
        .ok_or_else(|| malformed("values"))
}
