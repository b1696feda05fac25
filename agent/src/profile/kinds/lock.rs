//! Waiting for locks, by lock: where threads wait that others hold up.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads wait for locks, conditions and semaphores other than the GIL, with the stack of
/// the thread that waits and the lock as its leaf. Its sum is the time of `[waiting: lock]` in elapsed time;
/// waits for work are idle there and here.
///
/// Its names are those of Go's *block* profile, which has the stack of the waiting goroutine.
pub static KIND: Kind = Kind::of_waits(
    ProfileKind::LOCK,
    "lock",
    "block",
    PassSamples::WaitingForLock,
    Words {
        total: "of waiting for locks",
        any: "waited for a lock",
        none: "did not wait for a lock",
    },
);
