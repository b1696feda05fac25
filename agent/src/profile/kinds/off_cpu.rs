//! Time off the CPU: the elapsed time in which threads do not run.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, PassSamples, Period, SampleType, Source, TypeNames, Unit, Words},
};

/// Elapsed time of threads that wait, for something or for a CPU. It is derived: its samples are those
/// of elapsed time.
///
/// Its names are those of Alloy in Pyroscope, those of `parca-agent` in Parca, whose page knows no
/// others, and in OTLP those of OpenTelemetry's profiler. For Parca a sample is the period.
pub static KIND: Kind = Kind {
    number: ProfileKind::OFF_CPU,
    name: "off-cpu",
    unit: Unit::Nanoseconds,
    source: Source::Passes(PassSamples::NotRunning),
    period: Period::Rate,
    names: TypeNames {
        series: "offcpu",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("offcpu", "nanoseconds"),
        ],
        period_type: SampleType::value("offcpu", "nanoseconds"),
    },
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
    default_type: 1,
    otlp_type: 1,
    plotted: ValueSource::Value,
    words: Words {
        total: "off the CPU",
        any: "waited",
        none: "did not wait",
    },
};
