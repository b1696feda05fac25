//! Waiting for locks, by who released them: what each thread did while it kept others waiting.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads wait for locks, with the stack of the thread that ended the wait, at that moment:
/// of a lock the one that released it. What nobody had ended by the end of the window, or what a time limit ended,
/// has the stack of the thread that waits. So its sum is that of [`lock`](super::lock::KIND).
///
/// Its names are those of Go's *mutex* profile, which has the stack of the goroutine that unlocks.
pub static KIND: Kind = Kind::of_waits(
    ProfileKind::LOCK_RELEASE,
    "lock-release",
    "mutex",
    PassSamples::ReleasingLock,
    Words {
        total: "of keeping others waiting for locks",
        any: "kept others waiting for a lock",
        none: "kept no thread waiting for a lock",
    },
);
