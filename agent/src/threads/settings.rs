//! How passes are made.

use std::time::Duration;

use super::{
    deadlocks::Deadlocks, gil_times::GilTimes, locks::LockNaming, snapshot::Snapshot,
    traced_waits::TracedWaits,
};

/// How passes are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time between two of them, while they cost no more than they may.
    pub period: Duration,
    /// Start value of the hashes of stacks and code objects.
    pub hash_seed: u64,
    /// Whether native and kernel frames are read.
    pub with_native: bool,
    /// What they read.
    pub reads: Reads,
    /// How to name the locks for which threads wait, if they are looked at.
    pub locks: Option<LockNaming>,
    /// Has the sampled waits, if context switches are traced.
    pub traced: Option<TracedWaits>,
    /// What is wanted besides samples.
    pub records: WaitRecords,
}

/// What passes read.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// The stacks of threads, and what they wait for.
    pub stacks: bool,
    /// Who holds the GIL.
    pub gil: bool,
    /// The tasks of asyncio.
    pub tasks: bool,
}

/// What passes find out besides samples, for those who want it.
#[derive(Clone, Debug, Default)]
pub struct WaitRecords {
    /// Gets the longest times in which threads held the GIL or waited for it.
    pub gil_times: Option<GilTimes>,
    /// Gets the deadlocks.
    pub deadlocks: Option<Deadlocks>,
    /// Gets one stack of each thread, in place of all samples: passes are made one after the other.
    pub snapshot: Option<Snapshot>,
}
