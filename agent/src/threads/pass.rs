//! One pass: every thread of the profiled processes at one instant.
//!
//! ```text
//! visit all ─► changed ones: registers ─► reading: reason, walk ─► proof: visited again ─► samples
//!         ├──► others: they have the stack that they had                             └──► lock_notes
//!         └──► resting: the same goes for their sample
//! ```
//!
//! Invariants: a stack is used only if it is *proved*; each thread gets all of the elapsed time, whether its stack is
//! proved or not.

mod away;
mod changed;
mod gil_waits;
mod lock_notes;
mod owed_time;
mod processes;
mod proof;
mod put_off;
mod reading;
mod resting;
mod resting_threads;
mod running;
mod samples;
mod tasks;
mod traced;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{limits::MAX_KNOWN_THREADS, visit::ThreadVisit};

use self::{away::Traced, changed::Changed, owed_time::OwedTime, resting_threads::RestingThreads};
use super::{
    batch::{Batch, PassTime},
    deadlocks::{Entered, LockWaiter},
    gil::GilHolders,
    known_thread::{KnownThread, did_not_run},
    locks::LockNaming,
    process::VisitedProcess,
    settings::{Reads, Settings, WaitRecords},
    shared::{GivenUp, Shared},
    walker::Walker,
};
use crate::bpf::{Visited, monotonic_ns};

/// Most threads that are remembered.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Why a pass has not ended.
#[derive(Debug)]
pub(super) enum PassError {
    /// The iterator or a map has failed.
    Failed(io::Error),
    /// A process has held the thread up for so long that another one makes the passes.
    GivenUp,
}

impl From<GivenUp> for PassError {
    fn from(_: GivenUp) -> Self {
        Self::GivenUp
    }
}

impl From<io::Error> for PassError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes passes, one after another.
pub(super) struct Passer {
    shared: Arc<Shared>,
    /// The turn of the thread that makes them.
    turn: u32,
    walker: Walker,
    processes: HashMap<u32, VisitedProcess>,
    threads: HashMap<u32, KnownThread>,
    /// Those of them that rest.
    resting: RestingThreads,
    pub(super) batch: Batch,
    /// Processes that could not be opened in this pass.
    unknown: HashSet<u32>,
    resend_before_ns: u64,
    /// The number of the pass.
    pass: u64,
    /// Known threads that it has visited.
    visited: usize,
    /// Stacks that are read before they are proved; 0 before the first pass.
    chunk: usize,
    reads: Reads,
    /// The time of tasks of which nothing was read.
    owed_to_tasks: OwedTime,
    /// How it names the locks for which threads wait, if it looks at them.
    locks: Option<LockNaming>,
    records: WaitRecords,
    /// What is sampled of context switches, if they are traced.
    traced: Option<Traced>,
    /// Threads that wait for locks, if deadlocks are wanted.
    lock_waiters: HashMap<u32, LockWaiter>,
    /// Threads that have entered locks, if that is wanted.
    entered_locks: HashMap<u32, Entered>,
}

impl Passer {
    pub(super) fn new(shared: Arc<Shared>, walker: Walker, turn: u32, settings: &Settings) -> Self {
        Self {
            shared,
            turn,
            walker,
            processes: HashMap::new(),
            threads: HashMap::new(),
            resting: RestingThreads::new(settings),
            batch: Batch::default(),
            unknown: HashSet::new(),
            resend_before_ns: 0,
            pass: 0,
            visited: 0,
            chunk: 0,
            reads: settings.reads,
            owed_to_tasks: OwedTime::default(),
            locks: settings.locks,
            records: settings.records.clone(),
            traced: settings.traced.clone().map(Traced::new),
            lock_waiters: HashMap::new(),
            entered_locks: HashMap::new(),
        }
    }

    /// Makes a pass: each thread gets a sample of `elapsed_ns` nanoseconds, and tasks, as far as they are wanted.
    ///
    /// # Errors
    ///
    /// When the iterator or a map fails, or the thread was given up.
    pub(super) fn pass(&mut self, elapsed_ns: u64) -> Result<(), PassError> {
        self.pass += 1;
        self.visited = 0;
        self.batch.rest_changes.turn = self.turn;
        self.resend_if_due();
        let mut heads = Vec::new();
        let mut changed = Vec::new();
        let mut resting = Vec::with_capacity(self.resting.count());
        let time_ns = monotonic_ns();
        self.unknown.clear();
        for visited in self.shared.visits().visit_all()? {
            match visited {
                Visited::Resting { tid, state } => resting.push((tid, state)),
                Visited::Seen(visit) => {
                    let known = self.threads.get(&visit.head.tid);
                    heads.push(known.map_or(visit.head, |known| known.completed(visit.head)));
                    changed.extend(Changed::of(&visit));
                }
            }
        }
        let visits = heads.len() + resting.len();
        for thread in resting {
            heads.extend(self.rest(thread, time_ns, elapsed_ns));
        }
        for head in &heads {
            self.meet(head, time_ns);
        }
        self.shared.status.add_visits(visits);
        if self.reads.stacks {
            self.sample_threads(&heads, changed, time_ns, elapsed_ns)?;
        }
        if self.reads.tasks {
            self.sample_tasks(time_ns, elapsed_ns)?;
        }
        for process in self.processes.values() {
            // They are read anew in the next pass.
            process.memory.clear();
        }
        self.forget_gone(time_ns);
        self.batch.rest_changes.pass = Some(PassTime {
            time_ns,
            elapsed_ns,
        });
        Ok(())
    }

    /// Reads the stacks of the threads that have `changed`, and adds the samples of all.
    fn sample_threads(
        &mut self,
        heads: &[ThreadVisit],
        mut changed: Vec<Changed>,
        time_ns: u64,
        elapsed_ns: u64,
    ) -> Result<(), PassError> {
        self.sample_running(heads, time_ns);
        if !changed.is_empty() {
            // Where there is no time for all, it is not always the same ones that have no stacks.
            let first = fastrand::usize(..changed.len());
            changed.rotate_left(first);
        }
        let deadline = Instant::now() + self.time_limit(elapsed_ns);
        self.read_stacks(&changed, deadline)?;
        let is_moment = self.is_moment();
        for head in heads {
            if let Some(known) = self.threads.get_mut(&head.tid) {
                known.show(head, elapsed_ns, is_moment);
            }
        }
        let waits = self.take_traced(heads, time_ns)?;
        let holders = if self.reads.gil {
            self.gil_holders(heads, &waits, deadline)?
        } else {
            GilHolders::default()
        };
        self.sample_holders(&holders, time_ns);
        for head in heads {
            self.add_sample(head, &holders, time_ns, elapsed_ns);
        }
        self.add_traced(&waits, &holders);
        self.add_holders(&holders, time_ns, elapsed_ns);
        self.find_deadlocks(heads, deadline)
    }

    /// Has all sent again that the receivers may have forgotten.
    fn resend_if_due(&mut self) {
        let before = self.shared.maps.resend_before_ns();
        if before == self.resend_before_ns {
            return;
        }
        self.resend_before_ns = before;
        self.batch.resend();
        for process in self.processes.values_mut() {
            process.symbols.clear();
        }
        for known in self.threads.values_mut() {
            known.reset();
            known.last_wait = None;
            known.name_due_ns = 0;
        }
        self.shared.visits().forget_all();
    }

    /// Most time for reading stacks and GILs in this pass.
    fn time_limit(&self, elapsed_ns: u64) -> Duration {
        // The first one has to read them all.
        let is_long = self.pass == 1 || self.is_moment();
        let elapsed = Duration::from_nanos(if is_long { u64::MAX } else { elapsed_ns });
        self.shared.visits().time_limit(elapsed)
    }

    /// Whether only this moment counts: a snapshot is taken.
    fn is_moment(&self) -> bool {
        self.records.snapshot.is_some()
    }

    /// Notes that a thread is there.
    fn meet(&mut self, head: &ThreadVisit, now_ns: u64) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&head.tid) {
            return;
        }
        let is_moment = self.is_moment();
        self.end_rest(head.tid);
        let known = self
            .threads
            .entry(head.tid)
            .or_insert_with(|| KnownThread::new(*head));
        if !did_not_run(&known.visit, head) {
            known.give_up_time(now_ns, &mut self.batch, &self.shared.status);
        }
        if !known.is(head) {
            *known = KnownThread::new(*head);
        }
        known.note_traced(head, now_ns);
        if known.pass != self.pass {
            known.pass = self.pass;
            self.visited += 1;
        }
        if head.on_cpu != 0 {
            known.reset();
        }
        if known.again_ns != 0 && (is_moment || now_ns >= known.again_ns) {
            known.again_ns = 0;
            // It is read in the next pass.
            self.shared.visits().forget(head.tid);
        }
    }

    /// Forgets threads and processes that this pass did not visit.
    fn forget_gone(&mut self, time_ns: u64) {
        self.close_processes();
        if self.visited == self.threads.len() {
            return;
        }
        let pass = self.pass;
        let resting = &self.resting;
        let gone: Vec<u32> = self
            .threads
            .iter()
            .filter(|(tid, known)| known.pass != pass && !resting.was_visited(**tid, pass))
            .map(|(tid, _)| *tid)
            .collect();
        for tid in gone {
            self.end_rest(tid);
            let mut known = self.threads.remove(&tid);
            if let Some(known) = &mut known {
                known.give_up_time(time_ns, &mut self.batch, &self.shared.status);
            }
            if let Some(traced) = &mut self.traced {
                traced.forget(tid);
            }
            self.lock_waiters.remove(&tid);
            self.entered_locks.remove(&tid);
            self.shared.visits().forget(tid);
            if known.is_some_and(|known| known.is_noted)
                && let Some(mut waits) = self.shared.lock_waits()
            {
                waits.forget(tid);
            }
        }
    }
}
