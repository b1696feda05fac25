//! The outline of a pprof file: everything but samples, and what samples refer to.

use std::time::{Duration, SystemTime};

use super::{
    comments::Comments,
    error::{PprofReadError, malformed},
};
use crate::{
    formats::pprof::wire::{FieldValue, Fields, MalformedMessage, number},
    profile::{Amount, CPU, Kind, Period, SampleType, ValueSource},
};

/// Most entries of a table: strings, functions, locations, samples.
const MAX_ENTRIES: usize = 1 << 20;

/// Valid sampling periods in nanoseconds: 1 µs to an hour.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;

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
    pub(super) period: u64,
    pub(super) kind: &'static Kind,
}

impl<'a> Outline<'a> {
    pub(super) fn of(message: &'a [u8]) -> Result<Self, PprofReadError> {
        let mut outline = Self {
            texts: Vec::new(),
            comments: Vec::new(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            period: 0,
            kind: &CPU,
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
                (tag::PERIOD, FieldValue::Number(time)) => outline.period = time,
                _ => {}
            }
        }
        outline.kind = outline.kind_of(&types)?;
        if outline.kind.is_named_as_in_go() {
            let comments = outline.comments()?;
            outline.period = comments.period.unwrap_or_default();
            let types = &outline.kind.names.sample_types;
            let is_it = |kind: &&&'static Kind| {
                kind.names.sample_types == *types && comments.event.as_deref() == Some(kind.name)
            };
            outline.kind = Kind::ALL.iter().find(is_it).unwrap_or(&outline.kind);
        }
        let is_valid = match outline.kind.period {
            Period::Rate => PERIODS_NS.contains(&outline.period),
            Period::Events(_) | Period::Bytes(_) => {
                i64::try_from(outline.period).is_ok_and(|period| period > 0)
            }
        };
        if !is_valid {
            return Err(malformed("times"));
        }
        Ok(outline)
    }

    /// The kind whose samples have values of these types.
    fn kind_of(&self, types: &[&[u8]]) -> Result<&'static Kind, PprofReadError> {
        let text = |index| self.text(index).unwrap_or_default();
        let is_of = |of: &SampleType, message: &[u8]| {
            let [mut name, mut unit] = [0, 0];
            for field in Fields::of(message) {
                match field {
                    Ok((1, FieldValue::Number(index))) => name = index,
                    Ok((2, FieldValue::Number(index))) => unit = index,
                    _ => return false,
                }
            }
            (text(name), text(unit)) == (of.name, of.unit)
        };
        let mut kinds = Kind::ALL.iter().copied();
        let found = kinds.find(|kind| {
            let mut pairs = kind.names.sample_types.iter().zip(types);
            kind.names.sample_types.len() == types.len()
                && pairs.all(|(of, message)| is_of(of, message))
        });
        found.ok_or(PprofReadError::Foreign)
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

/// What a sample measured, without decoding the rest of it.
pub(super) fn amount_of(sample: &[u8], kind: &Kind) -> Result<Amount, PprofReadError> {
    let mut values = Vec::new();
    for field in Fields::of(sample) {
        match field? {
            (2, FieldValue::Number(value)) => values.push(value.cast_signed()),
            (2, FieldValue::Bytes(mut packed)) => {
                while !packed.is_empty() && values.len() <= kind.names.sample_types.len() {
                    let value = number(&mut packed).ok_or(MalformedMessage)?;
                    values.push(value.cast_signed());
                }
            }
            _ => {}
        }
        if values.len() > kind.names.sample_types.len() {
            break;
        }
    }
    amount(&values, kind)
}

/// What the values of a sample of a kind are together.
pub(super) fn amount(values: &[i64], kind: &Kind) -> Result<Amount, PprofReadError> {
    if values.len() != kind.names.sample_types.len() {
        return Err(malformed("values"));
    }
    let mut amount = Amount::default();
    for (of, value) in kind.names.sample_types.iter().zip(values) {
        let value = u64::try_from(*value).map_err(|_| malformed("values"))?;
        match of.source {
            ValueSource::Count => amount.count = value,
            ValueSource::Value => amount.value = value,
        }
    }
    Ok(amount)
}

fn nanoseconds(number: u64) -> Result<Duration, PprofReadError> {
    let number = i64::try_from(number).map_err(|_| malformed("times"))?;
    Ok(Duration::from_nanos(number.unsigned_abs()))
}

/// Checks that sums of all samples fit into 63 bits.
pub(super) fn check_total(total: Amount) -> Result<(), PprofReadError> {
    let fits = |sum: u64| i64::try_from(sum).is_ok();
    let is_valid = fits(total.count) && fits(total.value);
    is_valid.then_some(()).ok_or_else(|| malformed("values"))
}
