//! What profiles measure, one file per kind.
//!
//! Invariant: nothing else compares kinds; aggregation, formats, exporters and the summary take from a
//! [`Kind`] what differs.

pub mod cpu;
pub mod page_faults;

pub use self::cpu::KIND as CPU;

use agent_common::record::ProfileKind;

use super::amount::ValueSource;

/// A kind of profile.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number in the records of the BPF programs.
    pub number: ProfileKind,
    /// Its name in options, messages and names of files.
    pub name: &'static str,
    /// Unit of the values of its samples.
    pub unit: Unit,
    /// How far samples are apart.
    pub period: Period,
    /// Types of the values of a sample in pprof.
    pub sample_types: &'static [SampleType],
    /// Which of [`Self::sample_types`] is shown by default.
    pub default_type: usize,
    /// Name and unit of the period in pprof and OTLP.
    pub period_type: (&'static str, &'static str),
    /// Which of [`Self::sample_types`] OTLP has, where a profile has only one.
    pub otlp_type: usize,
    /// Name of its series (`__name__`) in Pyroscope and Parca.
    pub series_name: &'static str,
    /// The number that folded stacks and flame graphs have.
    pub plotted: ValueSource,
    /// Words of the summary.
    pub words: Words,
}

/// Type of a value of a sample.
#[derive(Debug, PartialEq, Eq)]
pub struct SampleType {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: ValueSource,
}

/// Unit of the values of a kind's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Events.
    Events,
}

/// How far the samples of a kind are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// As the sampling rate says, in nanoseconds.
    Rate,
    /// So many events.
    Events(u64),
}

/// Words of the summary.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    /// What follows the total, such as `of CPU` in `1.50 s of CPU`.
    pub total: &'static str,
    /// What a process or a thread did that has samples, such as `used any CPU`.
    pub any: &'static str,
    /// What one did that has none, such as `used no CPU`.
    pub none: &'static str,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[&'static Self] = &[&cpu::KIND, &page_faults::KIND];

    /// The kind with a number.
    #[must_use]
    pub fn from_number(number: ProfileKind) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.number == number)
    }

    /// The kind with a [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.name == name)
    }

    /// Whether it is CPU time, which names of files do not mention.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.number == CPU.number
    }
}

impl Unit {
    /// A value as text, such as `1.50 s`.
    #[must_use]
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Nanoseconds => format!("{:.2} s", seconds(value)),
            Self::Events => value.to_string(),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has two decimals, and so much time nobody samples"
)]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_differ_in_what_identifies_them() {
        let all = Kind::ALL.iter();
        let numbers: BTreeSet<_> = all.clone().map(|kind| kind.number).collect();
        let names: BTreeSet<_> = all.clone().map(|kind| kind.name).collect();
        let series: BTreeSet<_> = all.map(|kind| kind.series_name).collect();
        let count = Kind::ALL.len();
        assert_eq!(
            (numbers.len(), names.len(), series.len()),
            (count, count, count)
        );
    }

    #[test]
    fn names_are_found_and_fit_into_names_of_files() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name), Some(kind));
            assert_eq!(Kind::from_number(kind.number), Some(kind));
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(kind.name.chars().all(is_plain), "{}", kind.name);
        }
        assert_eq!(Kind::from_name("wall"), None);
        assert_eq!(Kind::from_number(ProfileKind(0)), None);
    }

    #[test]
    fn types_that_are_chosen_exist() {
        for kind in Kind::ALL {
            assert!(kind.default_type < kind.sample_types.len(), "{}", kind.name);
            assert!(kind.otlp_type < kind.sample_types.len(), "{}", kind.name);
        }
    }
}
