//! Page faults: accesses to memory that the kernel had to resolve.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, SampleType, Unit, Words},
};

/// Page faults, minor and major. The period is a prime, so that no loop faults in lockstep with it.
pub static KIND: Kind = Kind {
    number: ProfileKind::PAGE_FAULTS,
    name: "page-faults",
    unit: Unit::Events,
    period: Period::Events(101),
    sample_types: &[
        SampleType {
            name: "samples",
            unit: "count",
            source: ValueSource::Count,
        },
        SampleType {
            name: "page_faults",
            unit: "count",
            source: ValueSource::Value,
        },
    ],
    default_type: 1,
    period_type: ("page_faults", "count"),
    otlp_type: 1,
    series_name: "page_faults",
    plotted: ValueSource::Value,
    words: Words {
        total: "page faults",
        any: "had any page fault",
        none: "had no page fault",
    },
};
