//! Kinds of profiles that other tools have written: what these measure is known when they are read.
//!
//! Invariant: a kind is made once for the types that it has, and their number and size are bounded, because
//! kinds stay until the process ends.

use std::sync::{Mutex, PoisonError};

use agent_common::record::ProfileKind;

use crate::{
    profile::{
        amount::ValueSource,
        kind::{Kind, Period, Source, Unit, Words},
        type_names::{SampleType, TypeNames},
    },
    text::printable,
};

/// Number of all these kinds; no record has it.
const NUMBER: ProfileKind = ProfileKind(u16::MAX);

/// Most kinds.
const MAX_KINDS: usize = 64;

/// Most bytes of the name of a type or a unit.
const MAX_NAME_BYTES: usize = 100;

/// The kinds so far.
static KINDS: Mutex<Vec<&'static Kind>> = Mutex::new(Vec::new());

/// Name and unit of a type of values in a file.
pub type TypeName<'a> = (&'a str, &'a str);

/// What a profile of another tool measures.
#[derive(Clone, Copy, Debug)]
pub struct ForeignTypes<'a> {
    /// What is counted.
    pub count: TypeName<'a>,
    /// What the values are.
    pub value: TypeName<'a>,
    /// What the period is.
    pub period: TypeName<'a>,
    /// Unit of the values.
    pub unit: Unit,
}

/// The kind of such profiles; [`None`] if there are too many kinds, or names are too long.
#[must_use]
pub fn foreign(types: &ForeignTypes<'_>) -> Option<&'static Kind> {
    let names = [types.count, types.value, types.period];
    let is_long = |name: &str| name.len() > MAX_NAME_BYTES;
    if names
        .iter()
        .any(|(name, unit)| is_long(name) || is_long(unit))
    {
        return None;
    }
    let names = names.map(|(name, unit)| (printable(name), printable(unit)));
    let names = names
        .each_ref()
        .map(|(name, unit)| (name.as_ref(), unit.as_ref()));
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |kind: &&&Kind| kind.unit == types.unit && names_of(kind) == names;
    if let Some(kind) = kinds.iter().find(is_it) {
        return Some(kind);
    }
    if kinds.len() >= MAX_KINDS {
        return None;
    }
    let kind: &'static Kind = Box::leak(Box::new(kind(names, types.unit)));
    kinds.push(kind);
    Some(kind)
}

impl Kind {
    /// Whether another tool has written the profile: [`Kind::ALL`] does not have such kinds.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.number == NUMBER
    }
}

/// The names of what is counted, of the values and of the period.
fn names_of(kind: &Kind) -> [TypeName<'static>; 3] {
    let [count, value] = kind.names.sample_types;
    [count, value, kind.names.period_type].map(|of| (of.name, of.unit))
}

fn kind([count, value, period]: [TypeName<'_>; 3], unit: Unit) -> Kind {
    let sample_type = |(name, unit): TypeName<'_>, source| SampleType {
        name: kept(name),
        unit: kept(unit),
        source,
    };
    let name = match &*word(value.0) {
        // Formats have the number of samples besides.
        "samples" => "sample_count",
        name => kept(name),
    };
    let value = sample_type(value, ValueSource::Value);
    let total = match unit {
        Unit::Events => value.name,
        Unit::Nanoseconds | Unit::Bytes => kept(&format!("of {}", value.name)),
    };
    Kind {
        number: NUMBER,
        name,
        unit,
        source: Source::Event,
        period: match unit {
            Unit::Nanoseconds => Period::Rate,
            Unit::Events => Period::Events(1),
            Unit::Bytes => Period::Bytes(1),
        },
        names: TypeNames {
            series: value.name,
            sample_types: [sample_type(count, ValueSource::Count), value],
            period_type: sample_type(period, ValueSource::Value),
        },
        parca_names: None,
        otlp_names: None,
        default_type: 1,
        otlp_type: 1,
        plotted: ValueSource::Value,
        words: Words {
            total,
            any: "has such values",
            none: "has no such values",
        },
    }
}

/// A name as a word, which formats require.
fn word(name: &str) -> String {
    let characters = name.chars().map(|character| {
        if character.is_ascii_alphanumeric() || matches!(character, '-' | '_') {
            character
        } else {
            '_'
        }
    });
    characters.collect()
}

fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(name: &str) -> ForeignTypes<'_> {
        ForeignTypes {
            count: ("objects", "count"),
            value: (name, "bytes"),
            period: ("space", "bytes"),
            unit: Unit::Bytes,
        }
    }

    #[test]
    fn a_kind_is_made_once() {
        let kind = foreign(&types("inuse\nspace")).unwrap();
        assert!(std::ptr::eq(kind, foreign(&types("inuse\nspace")).unwrap()));
        assert_eq!(kind.name, "inuse_nspace");
        assert_eq!(kind.names.sample_types[1].name, r"inuse\nspace");
        assert_eq!(kind.words.total, r"of inuse\nspace");
        assert!(kind.is_foreign() && !Kind::is_recorded(kind.number));
        assert_ne!(foreign(&types("alloc_space")), Some(kind));
        assert_eq!(foreign(&types(&"x".repeat(1_000))), None);
    }
}
