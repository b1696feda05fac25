//! Major page faults: accesses to memory for which the kernel had to read from a disk.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, SampleType, Unit, Words},
};

/// Major page faults. Each is a sample: the wait for the disk costs far more.
pub static KIND: Kind = Kind {
    number: ProfileKind::MAJOR_FAULTS,
    name: "major-faults",
    unit: Unit::Events,
    period: Period::Events(1),
    sample_types: &[
        SampleType {
            name: "samples",
            unit: "count",
            source: ValueSource::Count,
        },
        SampleType {
            name: "major_faults",
            unit: "count",
            source: ValueSource::Value,
        },
    ],
    default_type: 1,
    period_type: ("major_faults", "count"),
    otlp_type: 1,
    series_name: "major_faults",
    plotted: ValueSource::Value,
    words: Words {
        total: "major page faults",
        any: "had any major page fault",
        none: "had no major page fault",
    },
};
