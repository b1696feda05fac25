//! Names of the kinds of profiles in pprof files and in collectors.

use super::amount::ValueSource;

/// Whose names of a kind an output has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeNaming {
    /// Those of pprof files and of Pyroscope.
    #[default]
    Pprof,
    /// Those of Parca.
    Parca,
    /// Those of OTLP.
    Otlp,
}

impl TypeNaming {
    /// How many there are.
    pub const COUNT: usize = Self::Otlp as usize + 1;
}

/// Names of a kind by which a collector recognizes it. Together they are the key of its series:
/// `__name__:sample_type:sample_unit:period_type:period_unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeNames {
    /// Name of its series (`__name__`) in Pyroscope and Parca.
    pub series: &'static str,
    /// Types of the values of a sample in pprof: what is counted comes first, as is usual there.
    pub sample_types: [SampleType; 2],
    /// Type of the period in pprof and OTLP.
    pub period_type: SampleType,
}

/// Type of a value of a sample, or of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleType {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: ValueSource,
}

impl SampleType {
    /// The number of samples; of a period that each sample counts once.
    pub const SAMPLES: Self = Self {
        name: "samples",
        unit: "count",
        source: ValueSource::Count,
    };

    /// What samples measured; of a period how far they are apart.
    #[must_use]
    pub const fn value(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            source: ValueSource::Value,
        }
    }
}
