//! What a pass sends to the thread that counts samples: samples, what they refer to, and requests.
//!
//! Invariant: the hashes of what was sent are kept as long as those who receive it keep it, and are
//! bounded: what is forgotten is sent again.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use agent_common::record::{Sample, WantedTable};

use crate::bpf::Records;

/// Most hashes that are kept.
const MAX_SENT: usize = 64 << 10;

/// Most requests of one pass.
const MAX_WANTED: usize = 256;

/// What a pass sends.
#[derive(Debug, Default)]
pub struct Batch {
    /// Samples of threads, of the kind *wall*.
    pub samples: Vec<Sample>,
    /// Threads that rest, of which there are no samples.
    pub rest_changes: RestChanges,
    /// Threads that ran, or could run and have no stack: where, their next sample of CPU time tells.
    pub running: Vec<RunningThread>,
    /// Traced context switches: the first part of each wait that was sampled, and how long its thread then waited for a
    /// processor, for all that it stands for.
    pub traced_waits: Vec<Sample>,
    /// Time of threads in such parts of all their waits, or waiting for a processor.
    pub traced_times: Vec<TracedTime>,
    /// Samples of the kind *gil*: of threads that hold it and do not run, with the thread that each
    /// keeps waiting, or of threads that wait while nobody holds it.
    pub gil_waits: Vec<(Sample, KeptWaiting)>,
    /// Samples of the kind *gil-held*: of threads that hold the GIL and do not run.
    pub gil_held: Vec<Sample>,
    /// Threads that hold the GIL, and run or could.
    pub holding: Vec<RunningThread>,
    /// Samples of the kind *tasks*.
    pub tasks: Vec<Sample>,
    /// Threads that wait for locks.
    pub lock_waits: Vec<LockWaitSample>,
    /// Threads that wait for the GIL while its holder runs.
    pub blocked: Vec<BlockedThread>,
    /// For a snapshot: who holds the lock for which a thread waits, by the thread that waits.
    pub lock_holders: HashMap<u32, u32>,
    /// For a snapshot: threads with a stack, which did not run when it was read.
    pub rests: Vec<Rest>,
    /// Stacks, code objects and names of threads.
    pub references: Records,
    /// Unwind tables that walks missed.
    pub wanted_tables: Vec<WantedTable>,
    /// Hashes of what was sent.
    sent: HashSet<u64>,
}

/// What becomes known of threads that rest: each pass says of them what the last one has said.
#[derive(Debug, Default)]
pub struct RestChanges {
    /// The number of the thread that makes the passes: what those before have said goes for none of its own.
    pub turn: u32,
    /// Threads that do not rest any more, and have no part in the pass.
    pub ended: Vec<u32>,
    /// The pass; [`None`] where none was made.
    pub pass: Option<PassTime>,
    /// The samples of threads that rest from the next pass on, without values.
    pub begun: Vec<Sample>,
}

/// When a pass was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassTime {
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The time that it stands for, in nanoseconds.
    pub elapsed_ns: u64,
}

/// A thread that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The thread, in the initial PID namespace.
    pub tid: u32,
    /// For how many nanoseconds it has not run; 0 where that is not known.
    pub duration_ns: u64,
    /// Its `pthread_self()`.
    pub thread_id: u64,
}

/// A thread that waits for a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockWaitSample {
    /// Its sample, of the kind *lock*.
    pub sample: Sample,
    /// The lock by the hash of its name, 0 where it is not known.
    pub lock: u64,
    /// Context switches of the thread, which identify the wait; 0 where its end is not recorded.
    pub switches: u64,
    /// When the thread was made, in nanoseconds.
    pub start_time_ns: u64,
}

/// A thread that ran or could run.
#[derive(Clone, Copy, Debug)]
pub struct RunningThread {
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// Elapsed time that it stands for, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether it could run and did not.
    pub is_runnable: bool,
    /// Whether it held the GIL, where that is known.
    pub holds_gil: Option<bool>,
    /// Whether it was made just before.
    pub is_new: bool,
}

/// Time that a thread has spent in the first parts of its traced waits, or waiting for a processor.
#[derive(Clone, Copy, Debug)]
pub struct TracedTime {
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// Elapsed time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether it is that of waiting for a processor.
    pub is_runnable: bool,
}

/// A thread that another one of its process keeps waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeptWaiting {
    /// Its id, in the initial PID namespace; 0 for none, or one that is not told apart.
    pub tid: u32,
    /// Whether the other one has stopped it, and does not hold the GIL for which it waits.
    pub is_stopped: bool,
}

/// A thread that waits for the GIL while the thread that holds it runs.
#[derive(Clone, Copy, Debug)]
pub struct BlockedThread {
    /// Process of both, in the initial PID namespace.
    pub tgid: u32,
    /// The thread that holds the GIL, in the initial PID namespace.
    pub holder: u32,
    /// Whether that one was made just before.
    pub is_new: bool,
    /// The thread that waits.
    pub waiting: KeptWaiting,
    /// Elapsed time that it stands for, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Batch {
    /// Whether this hash was not sent yet; it is from now on.
    pub(super) fn is_new(&mut self, hash: u64) -> bool {
        if self.sent.len() >= MAX_SENT {
            self.sent.clear();
        }
        self.sent.insert(hash)
    }

    /// Takes back that a hash was sent.
    pub(super) fn forget(&mut self, hash: u64) {
        self.sent.remove(&hash);
    }

    /// A thread rests from the next pass on.
    pub(super) fn begin_rest(&mut self, sample: Sample) {
        self.rest_changes.begun.push(sample);
    }

    /// A thread does not rest any more.
    pub(super) fn end_rest(&mut self, tid: u32) {
        self.rest_changes.ended.push(tid);
    }

    /// Adds a record that samples refer to.
    pub(super) fn add_reference(&mut self, record: &[u8]) {
        self.references.push(record);
    }

    /// Adds a request.
    pub(super) fn want_table(&mut self, wanted: WantedTable) {
        if self.wanted_tables.len() < MAX_WANTED {
            self.wanted_tables.push(wanted);
        }
    }

    /// Takes what is to be sent; the hashes of what was sent stay.
    pub(super) fn take(&mut self) -> Self {
        let sent = mem::take(&mut self.sent);
        let batch = mem::take(self);
        self.sent = sent;
        batch
    }

    /// Has all sent again.
    pub(super) fn resend(&mut self) {
        self.sent.clear();
    }
}
