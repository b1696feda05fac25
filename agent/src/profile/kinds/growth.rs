//! Growth: bytes of resident memory that a process gains.

use agent_common::{limits::GROWTH_PERIOD_BYTES, record::ProfileKind};

use crate::profile::kind::{Kind, Period, Source, Unit, Words};

/// Bytes that become resident, of files, of the process's own and of shared memory. What is given back is not
/// taken off.
pub static KIND: Kind = Kind::of_values(
    ProfileKind::GROWTH,
    "growth",
    ("memory_growth", "growth"),
    Unit::Bytes,
    (Source::Event, Period::Bytes(GROWTH_PERIOD_BYTES)),
    Words {
        total: "of new resident memory",
        any: "gained any resident memory",
        none: "gained no resident memory",
    },
);
