//! Elapsed time: what each thread does at random instants, whether it runs or waits.

use agent_common::record::ProfileKind;

use crate::profile::{
    kind::{Kind, PassSamples, Words},
    type_names::{SampleType, TypeNames},
};

/// Elapsed time of all threads. A sample is one period of a thread's time.
///
/// Its names are those of async-profiler in Pyroscope, and those of `fgprof` in Parca, whose page knows
/// no others.
pub static KIND: Kind = Kind {
    parca_names: Some(TypeNames {
        series: "fgprof",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("time", "nanoseconds"),
        ],
        period_type: SampleType::value("wallclock", "nanoseconds"),
    }),
    ..Kind::of_passes(
        ProfileKind::WALL,
        "wall",
        ("wall", "wall"),
        PassSamples::All,
        Words {
            total: "of elapsed time",
            any: "ran or waited",
            none: "neither ran nor waited",
        },
    )
};
