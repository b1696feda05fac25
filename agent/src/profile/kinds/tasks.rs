//! Tasks of asyncio: what each of them does at random instants, whether it runs or waits.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time of the tasks of asyncio, each with the stack of its coroutines. Those that wait for their event loop, and not
/// for anything else, have a reason of their own.
pub static KIND: Kind = Kind::of_passes(
    ProfileKind::TASKS,
    "tasks",
    ("tasks", "tasks"),
    PassSamples::Tasks,
    Words {
        total: "of tasks",
        any: "had tasks of asyncio",
        none: "had no tasks of asyncio",
    },
);
