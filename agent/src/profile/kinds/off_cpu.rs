//! Time off the CPU: the elapsed time in which threads do not run.

use agent_common::record::ProfileKind;

use crate::profile::{
    kind::{Kind, PassSamples, Words},
    type_names::{SampleType, TypeNames},
};

/// Elapsed time of threads that wait, for something or for a CPU. It is derived: its samples are those
/// of elapsed time.
///
/// Its names are those of Alloy in Pyroscope, those of `parca-agent` in Parca, whose page knows no
/// others, and in OTLP those of OpenTelemetry's profiler. For Parca a sample is the period.
pub static KIND: Kind = Kind {
    parca_names: Some(TypeNames {
        series: "parca_agent",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("wallclock", "nanoseconds"),
        ],
        period_type: SampleType::SAMPLES,
    }),
    otlp_names: Some(TypeNames {
        series: "off_cpu",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("off_cpu", "nanoseconds"),
        ],
        period_type: SampleType::value("off_cpu", "nanoseconds"),
    }),
    ..Kind::of_passes(
        ProfileKind::OFF_CPU,
        "off-cpu",
        ("offcpu", "offcpu"),
        PassSamples::NotRunning,
        Words {
            total: "off the CPU",
            any: "waited",
            none: "did not wait",
        },
    )
};
