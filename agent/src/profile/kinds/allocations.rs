//! Allocations: memory that a process asks for, by bytes.

use agent_common::{limits::ALLOCATION_PERIOD_BYTES, record::ProfileKind};

use crate::profile::{
    amount::ValueSource,
    kind::{Kind, Period, Probed, Source, Unit, Words},
    type_names::{SampleType, TypeNames},
};

/// Memory that functions of the C library, or of the allocator that replaces it, were asked for, whether or not it was
/// ever used; what is given back is not taken off. Named as in Go's profiles of the heap, which collectors recognize.
pub static KIND: Kind = Kind {
    names: TypeNames {
        series: "memory",
        sample_types: [
            SampleType {
                name: "alloc_objects",
                unit: "count",
                source: ValueSource::Count,
            },
            SampleType::value("alloc_space", "bytes"),
        ],
        period_type: SampleType::value("space", "bytes"),
    },
    ..Kind::of_values(
        ProfileKind::ALLOCATIONS,
        "alloc",
        ("memory", "alloc_space"),
        Unit::Bytes,
        (
            Source::Probe(Probed::Allocations),
            Period::Bytes(ALLOCATION_PERIOD_BYTES),
        ),
        Words {
            total: "of memory allocated",
            any: "allocated any memory",
            none: "allocated no memory",
        },
    )
};
