//! The outline of a pprof file: everything but samples, and what samples refer to.

use std::time::{Duration, SystemTime};

use super::{
    comments::Comments,
    error::{PprofReadError, malformed},
    types::{Columns, Counted, FileTypes, MAX_TYPES, TypeName},
};
use crate::{
    formats::pprof::wire::{FieldValue, Fields, MalformedMessage, number},
    profile::{Amount, CPU, Kind, Period, ValueSource},
};

/// Most entries of a table: strings, functions, locations, samples.
const MAX_ENTRIES: usize = 1 << 20;

/// Valid sampling periods in nanoseconds: 1 µs to an hour.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;

/// Stands for a text that cannot be read.
const NOT_UTF8: &str = "[not UTF-8]";

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
    pub(in super::super) const PERIOD_TYPE: u64 = 11;
    pub(in super::super) const PERIOD: u64 = 12;
    pub(in super::super) const COMMENT: u64 = 13;
    pub(in super::super) const DEFAULT_TYPE: u64 = 14;
}

/// Whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading<'a> {
    /// Those of the agent; all others are an error.
    Own,
    /// Those of other tools too, the values of this type, else of the default one.
    Any {
        /// The name of the type.
        sample_type: Option<&'a str>,
    },
}

/// Strings, comments and times of a file.
pub(super) struct Outline<'a> {
    texts: Vec<&'a [u8]>,
    comments: Vec<u64>,
    pub(super) start: SystemTime,
    pub(super) duration: Duration,
    pub(super) period: u64,
    pub(super) kind: &'static Kind,
    pub(super) columns: Columns,
    /// The names of the types of values, and the index of the one that is read.
    pub(super) types: (Vec<String>, usize),
    /// Whether files of other tools are read too.
    pub(super) is_lenient: bool,
    /// Whether the agent has written it.
    pub(super) is_agents: bool,
}

impl<'a> Outline<'a> {
    pub(super) fn of(message: &'a [u8], reading: Reading<'_>) -> Result<Self, PprofReadError> {
        let mut outline = Self {
            texts: Vec::new(),
            comments: Vec::new(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            period: 0,
            kind: &CPU,
            columns: own_columns(&CPU),
            types: (Vec::new(), 0),
            is_lenient: reading != Reading::Own,
            is_agents: false,
        };
        let mut types = Vec::new();
        let mut period_type = None;
        let mut default_type = 0;
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
                (tag::PERIOD_TYPE, FieldValue::Bytes(of)) => period_type = Some(of),
                (tag::DEFAULT_TYPE, FieldValue::Number(index)) => default_type = index,
                _ => {}
            }
        }
        if types.len() > MAX_TYPES {
            return Err(malformed("types"));
        }
        outline.is_agents = outline.has_comment_of_the_agent();
        let types = FileTypes {
            values: types.into_iter().map(|of| outline.type_name(of)).collect(),
            period: period_type.map_or(("", ""), |of| outline.type_name(of)),
            default: outline.text(default_type).unwrap_or_default(),
        };
        match reading {
            Reading::Own => outline.set_own_kind(&types)?,
            Reading::Any { sample_type } => outline.set_kind(&types, sample_type)?,
        }
        Ok(outline)
    }

    /// Sets the kind of a file of any tool.
    fn set_kind(
        &mut self,
        types: &FileTypes<'_>,
        sample_type: Option<&str>,
    ) -> Result<(), PprofReadError> {
        let chosen = types.chosen(sample_type)?;
        let period = self.period;
        let is_own = self.set_own_kind(types).is_ok()
            && chosen == self.columns.value
            // Files of Go have the same names.
            && (self.is_agents || !self.kind.is_named_as_in_go());
        if !is_own {
            self.period = i64::try_from(period).map_or(0, i64::unsigned_abs);
            (self.kind, self.columns) = types.kind_of(chosen, self.period)?;
        }
        self.types = (types.names(), chosen);
        Ok(())
    }

    /// Sets the kind of a file that the agent wrote.
    fn set_own_kind(&mut self, types: &FileTypes<'_>) -> Result<(), PprofReadError> {
        let outline = self;
        outline.kind = kind_of(&types.values)?;
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
        outline.columns = own_columns(outline.kind);
        outline.types = (types.names(), outline.columns.value);
        Ok(())
    }

    fn has_comment_of_the_agent(&self) -> bool {
        let comments = self.comments.iter();
        let mut texts = comments.filter_map(|&index| self.text(index).ok());
        texts.any(|text| text.starts_with(concat!(env!("CARGO_PKG_NAME"), " ")))
    }

    /// Name and unit of a type; empty where they are not valid.
    fn type_name(&self, message: &[u8]) -> TypeName<'a> {
        let [mut name, mut unit] = [0, 0];
        for field in Fields::of(message) {
            match field {
                Ok((1, FieldValue::Number(index))) => name = index,
                Ok((2, FieldValue::Number(index))) => unit = index,
                _ => return ("", ""),
            }
        }
        let text = |index| self.text(index).unwrap_or_default();
        (text(name), text(unit))
    }

    /// A string of the table.
    fn text(&self, index: u64) -> Result<&'a str, PprofReadError> {
        let text = usize::try_from(index)
            .ok()
            .and_then(|index| self.texts.get(index));
        let text = text.ok_or_else(|| malformed("texts"))?;
        match str::from_utf8(text) {
            Ok(text) => Ok(text),
            Err(_) if self.is_lenient => Ok(NOT_UTF8),
            Err(_) => Err(malformed("texts")),
        }
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

/// The kind whose samples have values of these types.
fn kind_of(types: &[TypeName<'_>]) -> Result<&'static Kind, PprofReadError> {
    let mut kinds = Kind::ALL.iter().copied();
    let found = kinds.find(|kind| {
        let own = kind.names.sample_types.iter().map(|of| (of.name, of.unit));
        own.eq(types.iter().copied())
    });
    found.ok_or(PprofReadError::Foreign)
}

/// How the values of a kind of the agent are read.
fn own_columns(kind: &Kind) -> Columns {
    let types = &kind.names.sample_types;
    let of = |source| types.iter().position(|of| of.source == source);
    Columns {
        types: types.len(),
        counted: of(ValueSource::Count).map_or(Counted::Once, Counted::By),
        value: of(ValueSource::Value).unwrap_or(0),
        factor: 1,
    }
}

/// What a sample measured, without decoding the rest of it.
pub(super) fn amount_of(sample: &[u8], columns: Columns) -> Result<Amount, PprofReadError> {
    let mut values = Vec::new();
    for field in Fields::of(sample) {
        match field? {
            (2, FieldValue::Number(value)) => values.push(value.cast_signed()),
            (2, FieldValue::Bytes(mut packed)) => {
                while !packed.is_empty() && values.len() <= columns.types {
                    let value = number(&mut packed).ok_or(MalformedMessage)?;
                    values.push(value.cast_signed());
                }
            }
            _ => {}
        }
        if values.len() > columns.types {
            break;
        }
    }
    amount(&values, columns)
}

/// What the values of a sample are together.
pub(super) fn amount(values: &[i64], columns: Columns) -> Result<Amount, PprofReadError> {
    if values.len() != columns.types {
        return Err(malformed("values"));
    }
    let read = |index: usize| u64::try_from(values[index]).map_err(|_| PprofReadError::Negative);
    let value = read(columns.value)?
        .checked_mul(columns.factor)
        .ok_or_else(|| malformed("values"))?;
    let count = match columns.counted {
        Counted::By(index) => read(index)?,
        Counted::AsValue => value,
        Counted::Periods(period) => value.div_ceil(period.max(1)),
        Counted::Once => u64::from(value != 0),
    };
    Ok(Amount { count, value })
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
