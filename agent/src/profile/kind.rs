//! What distinguishes the kinds of profiles.

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
    /// Types of the values of a sample in pprof: what is counted comes first, as is usual there.
    pub sample_types: [SampleType; 2],
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
    /// A kind that counts events of the kernel: every `period`-th is a sample. `type_name` is its name
    /// in collectors.
    #[must_use]
    pub const fn of_events(
        number: ProfileKind,
        name: &'static str,
        type_name: &'static str,
        period: u64,
        words: Words,
    ) -> Self {
        Self {
            number,
            name,
            unit: Unit::Events,
            period: Period::Events(period),
            sample_types: [
                SampleType {
                    name: "samples",
                    unit: "count",
                    source: ValueSource::Count,
                },
                SampleType {
                    name: type_name,
                    unit: "count",
                    source: ValueSource::Value,
                },
            ],
            default_type: 1,
            period_type: (type_name, "count"),
            otlp_type: 1,
            series_name: type_name,
            plotted: ValueSource::Value,
            words,
        }
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
