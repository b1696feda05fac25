//! What the passes are doing, readable at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the passes.
#[derive(Debug, Default)]
pub struct PassStatus {
    /// Passes made.
    pub passes: AtomicU64,
    /// Time that they stand for, in nanoseconds.
    pub elapsed_ns: AtomicU64,
    /// Threads visited.
    pub visits: AtomicU64,
    /// Stacks read, also those that could not be proved.
    pub reads: AtomicU64,
    /// Stacks that could not be proved.
    pub unproved: AtomicU64,
    /// Waits for locks of which it cannot be recorded who ends them.
    pub unrecorded: AtomicU64,
    /// Times that a process had more tasks of asyncio than could be found in time.
    pub cut_tasks: AtomicU64,
    /// Records of traced context switches that found no room before a pass looked at them.
    pub dropped_waits: AtomicU64,
    /// Periods that no pass was made in because the one before took too long.
    pub missed: AtomicU64,
    /// Threads that made passes until a process held them up for good.
    pub given_up: AtomicU64,
    /// Processor time of the threads that have made them, in nanoseconds.
    pub cpu_ns: AtomicU64,
    /// Time between two passes, in nanoseconds: longer than wanted where they would cost too much.
    pub period_ns: AtomicU64,
}

impl PassStatus {
    pub(super) fn add_visits(&self, count: usize) {
        self.visits.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn add_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_cut_tasks(&self) {
        self.cut_tasks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_unrecorded(&self) {
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_dropped_waits(&self, count: u64) {
        self.dropped_waits.store(count, Ordering::Relaxed);
    }

    pub(super) fn add_unproved(&self) {
        self.unproved.fetch_add(1, Ordering::Relaxed);
    }
}
