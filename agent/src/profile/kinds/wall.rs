//! Elapsed time: what each thread does at random instants, whether it runs or waits.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, PassSamples, Period, SampleType, Source, TypeNames, Unit, Words},
};

/// Elapsed time of all threads. A sample is one period of a thread's time.
///
/// Its names are those of async-profiler in Pyroscope, and those of `fgprof` in Parca, whose page knows
/// no others.
pub static KIND: Kind = Kind {
    number: ProfileKind::WALL,
    name: "wall",
    unit: Unit::Nanoseconds,
    source: Source::Passes(PassSamples::All),
    period: Period::Rate,
    names: TypeNames {
        series: "wall",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("wall", "nanoseconds"),
        ],
        period_type: SampleType::value("wall", "nanoseconds"),
    },
    parca_names: Some(TypeNames {
        series: "fgprof",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("time", "nanoseconds"),
        ],
        period_type: SampleType::value("wallclock", "nanoseconds"),
    }),
    otlp_names: None,
    default_type: 1,
    otlp_type: 1,
    plotted: ValueSource::Value,
    words: Words {
        total: "of elapsed time",
        any: "ran or waited",
        none: "neither ran nor waited",
    },
};
