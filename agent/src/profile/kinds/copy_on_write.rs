//! Copy on write: bytes of memory that are copied because a process writes to them.

use agent_common::{limits::COPY_PERIOD_BYTES, record::ProfileKind};

use crate::profile::kind::{Kind, Period, Source, Unit, Words};

/// Memory that a process has with the one that it was forked from, or privately of a file, until it writes to it. What
/// no other process has any more is written to without a copy, and is not counted.
pub static KIND: Kind = Kind::of_values(
    ProfileKind::COPY_ON_WRITE,
    "copy-on-write",
    ("memory_copied", "copied"),
    Unit::Bytes,
    (Source::Event, Period::Bytes(COPY_PERIOD_BYTES)),
    Words {
        total: "of memory copied because it was written to",
        any: "had any memory copied",
        none: "had no memory copied",
    },
);
