//! CPU time, sampled by a clock.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, Source, Unit, Words},
    type_names::{SampleType, TypeNames},
};

/// CPU time. Its names are those of Go's CPU profiles, which all collectors recognize.
pub static KIND: Kind = Kind {
    number: ProfileKind::CPU,
    name: "cpu",
    unit: Unit::Nanoseconds,
    source: Source::Event,
    period: Period::Rate,
    names: TypeNames {
        series: "process_cpu",
        sample_types: [SampleType::SAMPLES, SampleType::value("cpu", "nanoseconds")],
        period_type: SampleType::value("cpu", "nanoseconds"),
    },
    parca_names: None,
    otlp_names: None,
    default_type: 1,
    otlp_type: 0,
    plotted: ValueSource::Count,
    words: Words {
        total: "of CPU",
        any: "used any CPU",
        none: "used no CPU",
    },
};
