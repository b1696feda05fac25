//! Time in run queues: threads that could run and wait for a CPU.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads could run and others had the CPUs. How long that is says the kernel's account
/// of each thread, `sched_info.run_delay`; the passes say where. It is derived: its samples are those of elapsed
/// time. No collector has a name for it.
pub static KIND: Kind = Kind::of_passes(
    ProfileKind::RUN_QUEUE,
    "run-queue",
    ("run_queue", "run_queue"),
    PassSamples::Runnable,
    Words {
        total: "in run queues",
        any: "waited for a CPU",
        none: "did not wait for a CPU",
    },
);
