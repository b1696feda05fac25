//! A snapshot: one stack of each thread, taken as soon as there is a proved one.
//!
//! A thread has its stack from a pass; one that runs from a pass on its processor, or from a sample of CPU time, which is
//! taken in its own context. No two stacks are of the same instant.
//!
//! Invariants: a thread has the first stack that is proved; only one with frames missing that may be there a moment
//! later is replaced, and unwind tables are waited for as long as any is being loaded. What is remembered is bounded.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_common::{
    limits::MAX_KNOWN_THREADS,
    record::{NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample, WaitReason},
};
use tokio::{sync::watch, time::timeout};

use super::{
    batch::{Batch, Rest, RunningThread},
    taken_processor::Taker,
};
use crate::bpf::monotonic_ns;

/// Most threads that are remembered.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Passes after which a deadlock is one.
const LEAST_PASSES: u64 = 2;

/// Passes in which a thread that does not run is proved, as a rule.
const PASSES_TO_PROVE: u64 = 3;

/// Time in which passes on the processors of threads that run find their stacks, unless the machine is busy: to load the
/// program that samples them takes as long.
const PATIENCE: Duration = Duration::from_millis(30);

/// Passes in which a stack is read again that lacks an unwind table, and in which whoever loads the table has heard
/// of it; and in which one of a thread that could run is read again that lacks frames.
const PASSES_TO_READ_AGAIN: u64 = 4;

/// The stacks of all threads. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    progress: watch::Sender<SnapshotProgress>,
    processors: Taker,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotProgress {
    /// Passes may find all stacks.
    #[default]
    Passes,
    /// Threads run, whose stacks passes may find on their processors.
    Running,
    /// There are threads of which passes find no stacks.
    NeedsSamples,
    /// Each thread has its stack.
    Complete,
}

#[derive(Debug, Default)]
struct State {
    /// By process and thread.
    threads: HashMap<Key, SnapshotThread>,
    /// Threads that have no stack yet that is final, as the last pass has seen them.
    missing: HashSet<Key>,
    passes: u64,
    /// Whether unwind tables are asked for, or are being loaded.
    is_loading: bool,
    /// Steps in which tables were loaded so far.
    steps: usize,
    /// The pass after which a stack that lacks a table would have it if it were loaded.
    tables_until: u64,
}

/// Process and thread.
type Key = (u32, u32);

/// A thread of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotThread {
    /// Process, in the agent's PID namespace.
    pub tgid: u32,
    /// Thread, in the agent's PID namespace.
    pub tid: u32,
    /// Its stack; [`None`] where none was proved.
    pub stack: Option<ProvedStack>,
    /// What it waited for when a pass last saw it; nothing if it ran.
    pub seen: WaitReason,
}

/// A stack that is proved.
#[derive(Clone, Copy, Debug)]
pub struct ProvedStack {
    /// A sample of elapsed time with this stack.
    pub sample: Sample,
    /// Whether it was taken in the thread's own context, while that ran.
    pub is_sample: bool,
    /// The lock for which it waits, by the hash of its name; 0 where it is not known.
    pub lock: u64,
    /// The thread that held that lock, where that is known.
    pub lock_holder: Option<u32>,
    /// The thread that held the GIL for which it waits.
    pub gil_holder: Option<u32>,
    /// For how long it has waited, where that is known.
    pub waited: Option<Duration>,
    /// What identifies this rest of the thread; [`None`] where it ran, or only the pass kept it from that.
    pub rest: Option<Rest>,
    /// Times between which it is of: on the clock of the BPF programs, in nanoseconds.
    pub since_ns: u64,
    /// See [`Self::since_ns`].
    pub until_ns: u64,
    lacks: Lacks,
    /// Passes before it was found.
    pass: u64,
}

/// What a stack lacks that may be there a moment later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lacks {
    Nothing,
    /// Native frames above those of a file whose unwind table is not loaded.
    Table,
    /// Frames in memory that could not be read.
    Memory,
}

impl Snapshot {
    /// Forgets all stacks, to take others. No pass may be made meanwhile.
    pub fn clear(&self) {
        let mut state = self.state();
        let (is_loading, steps) = (state.is_loading, state.steps);
        *state = State {
            is_loading,
            steps,
            ..State::default()
        };
        self.0.processors.allow();
        self.0.progress.send_replace(SnapshotProgress::Passes);
    }

    /// Waits until each thread has its stack, or samples of those that run are needed: also where passes take too long
    /// to find stacks of them.
    pub async fn progress(&self) -> SnapshotProgress {
        let needs_samples = SnapshotProgress::NeedsSamples;
        let reached = match self.reach(SnapshotProgress::Running).await {
            SnapshotProgress::Running => timeout(PATIENCE, self.reach(needs_samples))
                .await
                .unwrap_or(needs_samples),
            reached => reached,
        };
        // From now on passes are made wherever there is a processor.
        self.0.processors.release();
        reached
    }

    /// Takes the processors of threads that run.
    pub(super) fn processors(&self) -> &Taker {
        &self.0.processors
    }

    /// Has samples taken of threads that run.
    pub(super) fn ask_for_samples(&self) {
        self.advance(SnapshotProgress::NeedsSamples);
    }

    /// The threads that ran when a pass last saw them and have no final stack yet: processes and threads.
    pub(super) fn running_without_stack(&self) -> Vec<(u32, u32)> {
        let state = self.state();
        let ran = |key: &Key| {
            let thread = state.threads.get(key);
            thread.is_some_and(|thread| thread.seen == WaitReason::NONE)
        };
        let missing = state.missing.iter().copied();
        missing.filter(ran).collect()
    }

    /// Waits until each thread has its stack.
    pub async fn complete(&self) {
        self.reach(SnapshotProgress::Complete).await;
    }

    async fn reach(&self, least: SnapshotProgress) -> SnapshotProgress {
        let mut progress = self.0.progress.subscribe();
        let reached = progress.wait_for(|progress| *progress >= least).await;
        // The sender is here.
        reached.map_or(least, |progress| *progress)
    }

    /// All threads, by process and id.
    #[must_use]
    pub fn threads(&self) -> Vec<SnapshotThread> {
        let mut threads: Vec<_> = self.state().threads.values().copied().collect();
        threads.sort_unstable_by_key(|thread| (thread.tgid, thread.tid));
        threads
    }

    /// Takes over what a pass has found.
    pub fn add_batch(&self, batch: &Batch) {
        let mut state = self.state();
        state.is_loading |= !batch.wanted_tables.is_empty();
        let until_ns = monotonic_ns();
        let locks: HashMap<Key, u64> = batch
            .lock_waits
            .iter()
            .map(|waiting| (key(&waiting.sample), waiting.lock))
            .collect();
        let rests: HashMap<u32, Rest> = batch.rests.iter().map(|rest| (rest.tid, *rest)).collect();
        let blocked = batch
            .blocked
            .iter()
            .map(|it| ((it.tgid, it.waiting.tid), it.holder));
        let waiting = batch.gil_waits.iter().filter(|(_, it)| it.tid != 0);
        let waiting = waiting.map(|(holding, it)| ((holding.tgid, it.tid), holding.tid));
        let holders: HashMap<Key, u32> = blocked
            .chain(waiting.filter(|(_, holder)| *holder != 0))
            .collect();
        let seen: HashSet<Key> = batch
            .samples
            .iter()
            .map(key)
            .chain(batch.running.iter().map(|it| (it.tgid, it.tid)))
            .collect();
        // One that has ended meanwhile and has no stack never gets one.
        state
            .threads
            .retain(|key, thread| thread.stack.is_some() || seen.contains(key));
        for sample in &batch.samples {
            let key = key(sample);
            let rests = rests.get(&sample.tid).copied();
            let rest = rests.filter(|_| sample.wait != WaitReason::NONE);
            let waited = rest
                .map(|rest| rest.duration_ns)
                .filter(|duration| *duration != 0);
            let stack = is_proved(sample).then(|| ProvedStack {
                sample: Sample {
                    value: 1,
                    ..*sample
                },
                is_sample: false,
                lock: locks.get(&key).copied().unwrap_or(0),
                lock_holder: batch.lock_holders.get(&sample.tid).copied(),
                gil_holder: holders.get(&key).copied(),
                waited: waited.map(Duration::from_nanos),
                rest,
                since_ns: sample.time_ns,
                until_ns,
                lacks: match sample.native_status {
                    // It may be in the few instructions with which the interpreter links frames.
                    _ if sample.wait == WaitReason::NONE => lacks(sample),
                    _ if sample.wait == WaitReason::RUNNABLE
                        && state.passes < PASSES_TO_READ_AGAIN =>
                    {
                        lacks(sample)
                    }
                    NativeUnwindStatus::NO_TABLE => Lacks::Table,
                    // Memory that a pass cannot read it cannot read a moment later.
                    _ => Lacks::Nothing,
                },
                pass: state.passes,
            });
            state.add(key, sample.wait, stack);
        }
        for running in &batch.running {
            let reason = if running.is_runnable {
                WaitReason::RUNNABLE
            } else {
                WaitReason::NONE
            };
            state.add((running.tgid, running.tid), reason, None);
        }
        state.passes += 1;
        let missing = |key: &Key| !state.has_final(*key);
        state.missing = seen.into_iter().filter(missing).collect();
        let runs = |it: &RunningThread| !it.is_runnable && !state.has_final((it.tgid, it.tid));
        let is_running = batch.running.iter().any(runs);
        let mut missing = state.missing.iter();
        let is_slow = state.passes >= PASSES_TO_PROVE && missing.any(|key| !state.has_stack(*key));
        if is_slow && !is_running {
            self.advance(SnapshotProgress::NeedsSamples);
        } else if is_running {
            self.advance(SnapshotProgress::Running);
        }
        self.check(&state);
    }

    /// Takes over a sample of CPU time.
    pub fn add_sample(&self, sample: &Sample) {
        if sample.kind != ProfileKind::CPU || !is_proved(sample) {
            return;
        }
        let mut state = self.state();
        let key = key(sample);
        let lacks = lacks(sample);
        let sample = Sample {
            kind: ProfileKind::WALL,
            value: 1,
            count: 1,
            wait: WaitReason::NONE,
            ..*sample
        };
        let stack = ProvedStack {
            sample,
            is_sample: true,
            lock: 0,
            lock_holder: None,
            gil_holder: None,
            waited: None,
            rest: None,
            since_ns: sample.time_ns,
            until_ns: sample.time_ns,
            lacks,
            pass: state.passes,
        };
        state.add(key, WaitReason::NONE, Some(stack));
        if lacks == Lacks::Nothing && state.has_final(key) {
            state.missing.remove(&key);
        }
        self.check(&state);
    }

    /// Notes that an unwind table is asked for: it is waited for until [`Self::set_tables`] says more.
    pub fn ask_for_table(&self) {
        self.state().is_loading = true;
    }

    /// Notes whether unwind tables are being loaded, and how many steps towards that were made. Stacks that lack one
    /// are read again until then.
    pub fn set_tables(&self, is_loading: bool, steps: usize) {
        let mut state = self.state();
        if state.steps != steps {
            state.extend_tables();
        }
        (state.is_loading, state.steps) = (is_loading, steps);
    }

    /// Notes whether each thread has its stack.
    fn check(&self, state: &State) {
        if state.missing.is_empty() && state.passes >= LEAST_PASSES {
            self.advance(SnapshotProgress::Complete);
        }
    }

    fn advance(&self, to: SnapshotProgress) {
        self.0.progress.send_if_modified(|progress| {
            let is_new = *progress < to;
            *progress = to.max(*progress);
            is_new
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is consistent after every statement, so also after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProvedStack {
    /// Of a thread of a core dump, which stood still.
    pub(super) fn of_core(sample: Sample, lock: u64, gil_holder: Option<u32>) -> Self {
        Self {
            sample: Sample { value: 1, ..sample },
            is_sample: false,
            lock,
            lock_holder: None,
            gil_holder,
            waited: None,
            rest: None,
            since_ns: 0,
            until_ns: 0,
            lacks: Lacks::Nothing,
            pass: 0,
        }
    }

    /// Whether the thread states could be read, or Python has none of this thread.
    #[must_use]
    pub fn knows_state(&self) -> bool {
        self.sample.python_status != PythonUnwindStatus::THREAD_FAULT
    }

    /// Whether another one of its thread takes its place.
    ///
    /// Not while the table that it lacks is being loaded: those that are complete meanwhile are of other functions,
    /// where the thread is rarely.
    fn yields_to(&self, other: &Self, is_loading: bool) -> bool {
        match (self.lacks, other.lacks) {
            (Lacks::Table, _) if is_loading => false,
            (Lacks::Table, Lacks::Table) => true,
            (known, new) => new < known,
        }
    }
}

impl State {
    /// Notes that a thread was seen, with its stack if it is proved.
    fn add(&mut self, key: Key, seen: WaitReason, stack: Option<ProvedStack>) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
            return;
        }
        let thread = self.threads.entry(key).or_insert(SnapshotThread {
            tgid: key.0,
            tid: key.1,
            stack: None,
            seen,
        });
        thread.seen = seen;
        if let Some((known, new)) = thread.stack.as_mut().zip(stack)
            && new.rest.is_some()
            && known.rest == new.rest
            && known.lock == new.lock
        {
            // Of the same wait; a holder may be proved later than who waits.
            known.lock_holder = known.lock_holder.or(new.lock_holder);
        }
        if let Some(stack) = stack
            && thread
                .stack
                .is_none_or(|known| known.yields_to(&stack, self.is_loading))
        {
            let is_new = thread.stack.is_none_or(|it| it.lacks != Lacks::Table);
            thread.stack = Some(stack);
            if is_new && stack.lacks == Lacks::Table {
                // Whoever loads tables hears of it a moment later.
                self.extend_tables();
            }
        }
    }

    fn extend_tables(&mut self) {
        self.tables_until = self.passes + PASSES_TO_READ_AGAIN;
    }

    fn has_stack(&self, key: Key) -> bool {
        let thread = self.threads.get(&key);
        thread.is_some_and(|thread| thread.stack.is_some())
    }

    /// Whether a thread has its final stack. One of more than are remembered is not waited for.
    fn has_final(&self, key: Key) -> bool {
        let is_final = |stack: ProvedStack| match stack.lacks {
            Lacks::Nothing => true,
            Lacks::Table => !self.is_loading && stack.pass > self.tables_until,
            Lacks::Memory => false,
        };
        self.threads
            .get(&key)
            .is_none_or(|thread| thread.stack.is_some_and(is_final))
    }
}

fn key(sample: &Sample) -> Key {
    (sample.tgid, sample.tid)
}

/// Whether the stack of a sample is one that the thread had.
fn is_proved(sample: &Sample) -> bool {
    sample.python_status != PythonUnwindStatus::TORN
}

/// What a sample of CPU time lacks that the next one may have.
fn lacks(sample: &Sample) -> Lacks {
    let is_python_missing = matches!(
        sample.python_status,
        PythonUnwindStatus::THREAD_FAULT
            | PythonUnwindStatus::FRAME_FAULT
            | PythonUnwindStatus::BAD_POINTER
            | PythonUnwindStatus::CYCLE
    );
    match sample.native_status {
        NativeUnwindStatus::FAULT | NativeUnwindStatus::UNMAPPED => Lacks::Memory,
        _ if is_python_missing => Lacks::Memory,
        NativeUnwindStatus::NO_TABLE => Lacks::Table,
        _ => Lacks::Nothing,
    }
}

#[cfg(test)]
mod tests;
