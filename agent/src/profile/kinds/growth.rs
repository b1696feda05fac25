//! Growth: bytes of resident memory that a process gains.

use agent_common::{limits::GROWTH_PERIOD_BYTES, record::ProfileKind};

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, SampleType, Source, TypeNames, Unit, Words},
};

/// Bytes that become resident, of files, of the process's own and of shared memory. What is given back is not
/// taken off.
pub static KIND: Kind = Kind {
    number: ProfileKind::GROWTH,
    name: "growth",
    unit: Unit::Bytes,
    source: Source::Event,
    period: Period::Bytes(GROWTH_PERIOD_BYTES),
    names: TypeNames {
        series: "memory_growth",
        sample_types: [SampleType::SAMPLES, SampleType::value("growth", "bytes")],
        period_type: SampleType::value("growth", "bytes"),
    },
    parca_names: None,
    otlp_names: None,
    default_type: 1,
    otlp_type: 1,
    plotted: ValueSource::Value,
    words: Words {
        total: "of new resident memory",
        any: "gained any resident memory",
        none: "gained no resident memory",
    },
};
