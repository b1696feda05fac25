//! Waiting for the GIL, by who holds it: what each thread does while it keeps others waiting.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads wait for the GIL, with the stack of the thread that holds it, whether that
/// runs or waits itself. Where nobody holds it, since the next thread is being woken, with the stack of the
/// one that waits. So its sum is the time of `[waiting: gil]` in elapsed time.
///
/// As in Go's profiles of mutexes, who is to blame has the time that others wait. No collector has a name
/// for it.
pub static KIND: Kind = Kind::of_passes(
    ProfileKind::GIL,
    "gil",
    ("gil", "gil_delay"),
    PassSamples::BlockedByGil,
    Words {
        total: "of waiting for the GIL",
        any: "kept others waiting for the GIL",
        none: "kept no thread waiting for the GIL",
    },
);
