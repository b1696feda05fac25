//! A queue of jobs and the threads that do them.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{budget::Budget, failure::Failure, job::Job, quarantine::Subject};

/// Most jobs that wait in a lane.
const MAX_WAITING: usize = 64 << 10;

/// Most threads of a lane that are given up at the same time.
const MAX_ABANDONED: usize = 8;

/// A kind of work, with threads of its own: a kind that is slow does not hold up the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Opens processes and examines them, while they live.
    Processes,
    /// Reads memory of processes that is not resident.
    Memory,
    /// Compiles unwind tables, and loads them into the kernel.
    Tables,
    /// Reads symbols of files.
    Symbols,
}

impl Lane {
    pub(super) const ALL: [Self; 4] =
        [Self::Processes, Self::Memory, Self::Tables, Self::Symbols];

    /// Its name: of its threads, and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::Symbols => "symbols",
        }
    }

    /// How many threads it has.
    fn width(self) -> usize {
        match self {
            Self::Processes => 2,
            Self::Memory | Self::Tables | Self::Symbols => 1,
        }
    }
}

/// What the threads of a lane are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkersStatus {
    /// The kind of work.
    pub lane: Lane,
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Threads that were given up and have not ended since.
    pub abandoned: usize,
    /// Jobs that have ended.
    pub done: u64,
    /// Jobs that were given up so far.
    pub timed_out: u64,
}

/// The state of a lane, shared by its threads.
pub(super) struct Queue {
    lane: Lane,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: HashMap<u64, Running>,
    /// How many jobs have been started.
    started: u64,
    /// Threads that take jobs.
    threads: usize,
    /// Those of them that wait for one.
    idle: usize,
    /// Threads that were given up.
    abandoned: usize,
    done: u64,
    timed_out: u64,
    /// Whether the threads are to end.
    is_closed: bool,
}

/// A job that runs.
struct Running {
    subject: Subject,
    limit: Duration,
    since: Instant,
    is_abandoned: Arc<AtomicBool>,
    fail: Arc<dyn Fn(Failure) + Send + Sync>,
}

impl Queue {
    pub(super) fn new(lane: Lane) -> Arc<Self> {
        Arc::new(Self {
            lane,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Adds a job. `overran` is called on the job's thread when it has exceeded its budget.
    pub(super) fn push(self: &Arc<Self>, job: Job, overran: fn(&Subject)) {
        let mut state = self.state();
        if state.waiting.len() >= MAX_WAITING || state.is_closed {
            (job.fail)(Failure::Overloaded);
            return;
        }
        state.waiting.push_back(job);
        if state.idle == 0 && state.threads < self.lane.width() {
            self.start_thread(&mut state, overran);
        }
        if state.threads == 0 {
            // Nobody will do them.
            for job in state.waiting.drain(..) {
                (job.fail)(Failure::Overloaded);
            }
        }
        self.changed.notify_one();
    }

    pub(super) fn status(&self) -> WorkersStatus {
        let state = self.state();
        WorkersStatus {
            lane: self.lane,
            waiting: state.waiting.len(),
            running: state.running.len(),
            abandoned: state.abandoned,
            done: state.done,
            timed_out: state.timed_out,
        }
    }

    /// Ends the threads that wait for a job, and the others after theirs.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
