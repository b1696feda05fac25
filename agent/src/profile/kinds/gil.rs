//! Waiting for the GIL, by who holds it: what each thread does while it keeps others waiting.

use agent_common::record::ProfileKind;

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, PassSamples, Period, SampleType, Source, TypeNames, Unit, Words},
};

/// Elapsed time in which threads wait for the GIL, with the stack of the thread that holds it, whether that
/// runs or waits itself. Where nobody holds it, since the next thread is being woken, with the stack of the
/// one that waits. So its sum is the time of `[waiting: gil]` in elapsed time.
///
/// As in Go's profiles of mutexes, who is to blame has the time that others wait. No collector has a name
/// for it.
pub static KIND: Kind = Kind {
    number: ProfileKind::GIL,
    name: "gil",
    unit: Unit::Nanoseconds,
    source: Source::Passes(PassSamples::BlockedByGil),
    period: Period::Rate,
    names: TypeNames {
        series: "gil",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("gil_delay", "nanoseconds"),
        ],
        period_type: SampleType::value("gil_delay", "nanoseconds"),
    },
    parca_names: None,
    otlp_names: None,
    default_type: 1,
    otlp_type: 1,
    plotted: ValueSource::Value,
    words: Words {
        total: "of waiting for the GIL",
        any: "kept others waiting for the GIL",
        none: "kept no thread waiting for the GIL",
    },
};
