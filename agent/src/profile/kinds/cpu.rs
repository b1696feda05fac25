//! CPU time, sampled by a clock.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, SampleType, Unit, Words},
};

/// CPU time. Its names are those of Go's CPU profiles, which all collectors recognize.
pub static KIND: Kind = Kind {
    number: ProfileKind::CPU,
    name: "cpu",
    unit: Unit::Nanoseconds,
    period: Period::Rate,
    sample_types: [
        SampleType {
            name: "samples",
            unit: "count",
            source: ValueSource::Count,
        },
        SampleType {
            name: "cpu",
            unit: "nanoseconds",
            source: ValueSource::Value,
        },
    ],
    default_type: 1,
    period_type: ("cpu", "nanoseconds"),
    otlp_type: 0,
    series_name: "process_cpu",
    plotted: ValueSource::Count,
    words: Words {
        total: "of CPU",
        any: "used any CPU",
        none: "used no CPU",
    },
};
