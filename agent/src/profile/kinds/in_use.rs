//! Memory in use: bytes by which processes have grown since sampling began, and that are resident at its end.

use agent_common::{limits::GROWTH_PERIOD_BYTES, record::ProfileKind};

use crate::profile::kind::{Kind, PagesOf, Period, Source, Unit, Words};

/// Pages with the stack that made them resident. What an allocator uses again, without giving it back, is still of
/// whoever had it first.
pub static KIND: Kind = Kind::of_values(
    ProfileKind::IN_USE,
    "in-use",
    ("memory_in_use", "inuse_space"),
    Unit::Bytes,
    (
        Source::Pages(PagesOf::End),
        Period::Bytes(GROWTH_PERIOD_BYTES),
    ),
    Words {
        total: "of new memory in use at the end",
        any: "had any new memory in use at the end",
        none: "had no new memory in use at the end",
    },
);
