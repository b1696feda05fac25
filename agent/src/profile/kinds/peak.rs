//! Memory at the peak: bytes by which processes had grown since sampling began when most of them were resident.

use agent_common::{limits::GROWTH_PERIOD_BYTES, record::ProfileKind};

use crate::profile::kind::{Kind, PagesOf, Period, Source, Unit, Words};

/// As [`in_use`](super::in_use), at another moment: of each process that at which it had most.
pub static KIND: Kind = Kind::of_values(
    ProfileKind::PEAK,
    "peak",
    ("memory_peak", "peak_space"),
    Unit::Bytes,
    (
        Source::Pages(PagesOf::Peak),
        Period::Bytes(GROWTH_PERIOD_BYTES),
    ),
    Words {
        total: "of new memory at the peak",
        any: "had any new memory",
        none: "had no new memory",
    },
);
