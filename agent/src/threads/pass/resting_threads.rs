//! Which threads rest.

use foldhash::HashMap;

use crate::threads::settings::Settings;

/// Threads that rest.
#[derive(Debug)]
pub(super) struct RestingThreads {
    pub(super) threads: HashMap<u32, Rest>,
    /// Whether any may.
    pub(super) are_some: bool,
    /// Whether those may that wait for locks.
    pub(super) are_at_locks: bool,
}

/// A thread that rests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// The last pass that visited it.
    pub(super) pass: u64,
    /// When its stack is to be read again, in nanoseconds of the monotonic clock; 0 for never.
    pub(super) again_ns: u64,
    /// `__state` of the kernel.
    pub(super) state: u32,
    /// The longest pass that would show something else of it, in nanoseconds: of what it did by the kernel's accounts and
    /// no sample shows yet.
    pub(super) owes_ns: u64,
}

impl RestingThreads {
    /// None yet.
    pub(super) fn new(settings: &Settings) -> Self {
        let records = &settings.records;
        let are_single = settings.reads.gil
            || settings.traced.is_some()
            || records.gil_times.is_some()
            || records.deadlocks.is_some()
            || records.snapshot.is_some();
        Self {
            threads: HashMap::default(),
            are_some: !are_single,
            are_at_locks: settings.locks.is_none(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Whether the thread rests, and this pass has visited it.
    pub(super) fn was_visited(&self, tid: u32, pass: u64) -> bool {
        self.threads.get(&tid).is_some_and(|rest| rest.pass == pass)
    }
}
