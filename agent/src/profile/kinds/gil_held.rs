//! Time with the GIL: what each thread does while it holds it.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, PassSamples, Period, SampleType, Source, TypeNames, Unit, Words},
};

/// Elapsed time in which threads hold the GIL, whether they run or wait, and whether others wait for it. It is
/// derived: its samples are those of elapsed time. No collector has a name for it.
pub static KIND: Kind = Kind {
    number: ProfileKind::GIL_HELD,
    name: "gil-held",
    unit: Unit::Nanoseconds,
    source: Source::Passes(PassSamples::HoldingGil),
    period: Period::Rate,
    names: TypeNames {
        series: "gil_held",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("gil_held", "nanoseconds"),
        ],
        period_type: SampleType::value("gil_held", "nanoseconds"),
    },
    parca_names: None,
    otlp_names: None,
    default_type: 1,
    otlp_type: 1,
    plotted: ValueSource::Value,
    words: Words {
        total: "with the GIL",
        any: "held the GIL",
        none: "did not hold the GIL",
    },
};
