//! Waiting for locks, by lock: where threads wait that others hold up.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, SampleType, TypeNames, Words};

/// Elapsed time in which threads wait for locks, conditions and semaphores other than the GIL, with the stack of
/// the thread that waits and the lock as its leaf. Its sum is the time of `[waiting: lock]` in elapsed time;
/// waits for work are idle there and here.
///
/// Its names are those of Go's *block* profile, which has the stack of the waiting goroutine.
pub static KIND: Kind = Kind {
    names: TypeNames {
        series: "block",
        sample_types: [
            SampleType::SAMPLES,
            SampleType::value("delay", "nanoseconds"),
        ],
        period_type: SampleType {
            name: "contentions",
            ..SampleType::SAMPLES
        },
    },
    ..Kind::of_passes(
        ProfileKind::LOCK,
        "lock",
        ("block", "delay"),
        PassSamples::WaitingForLock,
        Words {
            total: "of waiting for locks",
            any: "waited for a lock",
            none: "did not wait for a lock",
        },
    )
};
