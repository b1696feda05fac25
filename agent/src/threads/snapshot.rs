//! A snapshot: one stack of each thread, taken as soon as there is a proved one.
//!
//! A thread that does not run has its stack from a pass, one that runs from a sample of CPU time, which is taken in
//! its own context. No two stacks are of the same instant.
//!
//! Invariants: a thread has the first stack that is proved; only one with frames missing that may be there a moment
//! later is replaced. What is remembered is bounded.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_common::{
    limits::MAX_KNOWN_THREADS,
    record::{NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample, WaitReason},
};
use tokio::sync::watch;

use super::batch::{Batch, Rest, RunningThread};
use crate::bpf::monotonic_ns;

/// Most threads that are remembered.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Passes after which a deadlock is one.
const LEAST_PASSES: u64 = 2;

/// Passes in which a thread that does not run is proved, as a rule.
const PASSES_TO_PROVE: u64 = 3;

/// The stacks of all threads. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    progress: watch::Sender<SnapshotProgress>,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotProgress {
    /// Passes may find all stacks.
    #[default]
    Passes,
    /// Threads run, which passes cannot read.
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
    /// Whether the thread ran, and was sampled.
    pub was_running: bool,
    /// The lock for which it waits, by the hash of its name; 0 where it is not known.
    pub lock: u64,
    /// The thread that held the GIL for which it waits.
    pub gil_holder: Option<u32>,
    /// For how long it has waited, where that is known.
    pub waited: Option<Duration>,
    /// What identifies this rest of the thread; [`None`] where it ran.
    pub rest: Option<Rest>,
    /// Times between which it is of: on the clock of the BPF programs, in nanoseconds.
    pub since_ns: u64,
    /// See [`Self::since_ns`].
    pub until_ns: u64,
    /// Whether no frame is missing that may be there a moment later.
    is_final: bool,
}

impl Snapshot {
    /// Waits until each thread has its stack, or samples of those that run are needed.
    pub async fn progress(&self) -> SnapshotProgress {
        self.reach(SnapshotProgress::NeedsSamples).await
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
            .map(|it| ((it.tgid, it.tid), it.holder));
        let waiting = batch.gil_waits.iter().filter(|(_, tid)| *tid != 0);
        let waiting = waiting.map(|(holding, tid)| ((holding.tgid, *tid), holding.tid));
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
            let rest = rests.get(&sample.tid).copied();
            let waited = rest
                .map(|rest| rest.duration_ns)
                .filter(|duration| *duration != 0);
            let stack = is_proved(sample).then(|| ProvedStack {
                sample: Sample {
                    value: 1,
                    ..*sample
                },
                was_running: false,
                lock: locks.get(&key).copied().unwrap_or(0),
                gil_holder: holders.get(&key).copied(),
                waited: waited.map(Duration::from_nanos),
                rest,
                since_ns: sample.time_ns,
                until_ns,
                // What a pass cannot read it cannot read a moment later.
                is_final: true,
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
        let is_slow = state.passes >= PASSES_TO_PROVE && !state.missing.is_empty();
        if is_running || is_slow {
            self.advance(SnapshotProgress::NeedsSamples);
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
        let is_final = is_final(sample);
        let sample = Sample {
            kind: ProfileKind::WALL,
            value: 1,
            count: 1,
            wait: WaitReason::NONE,
            ..*sample
        };
        let stack = ProvedStack {
            sample,
            was_running: true,
            lock: 0,
            gil_holder: None,
            waited: None,
            rest: None,
            since_ns: sample.time_ns,
            until_ns: sample.time_ns,
            is_final,
        };
        state.add(key, WaitReason::NONE, Some(stack));
        if is_final {
            state.missing.remove(&key);
        }
        self.check(&state);
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
        if let Some(stack) = stack
            && thread
                .stack
                .is_none_or(|known| !known.is_final && stack.is_final)
        {
            thread.stack = Some(stack);
        }
    }

    /// Whether a thread has its stack. One of more than are remembered is not waited for.
    fn has_final(&self, key: Key) -> bool {
        self.threads
            .get(&key)
            .is_none_or(|thread| thread.stack.is_some_and(|stack| stack.is_final))
    }
}

fn key(sample: &Sample) -> Key {
    (sample.tgid, sample.tid)
}

/// Whether the stack of a sample is one that the thread had.
fn is_proved(sample: &Sample) -> bool {
    sample.python_status != PythonUnwindStatus::TORN
}

/// Whether no frame of a sample of CPU time is missing that the next one may have: a page that was not resident, a
/// table that was not loaded.
fn is_final(sample: &Sample) -> bool {
    let is_missing = matches!(
        sample.python_status,
        PythonUnwindStatus::THREAD_FAULT
            | PythonUnwindStatus::FRAME_FAULT
            | PythonUnwindStatus::BAD_POINTER
            | PythonUnwindStatus::CYCLE
    ) || matches!(
        sample.native_status,
        NativeUnwindStatus::NO_TABLE | NativeUnwindStatus::FAULT | NativeUnwindStatus::UNMAPPED
    );
    !is_missing
}

#[cfg(test)]
mod tests {
    use agent_common::record::{Header, MemoryType, RecordKind};

    use super::*;

    fn sample(tid: u32, stack: u64, wait: WaitReason) -> Sample {
        Sample {
            header: Header {
                kind: RecordKind::SAMPLE,
                reserved: 0,
                bytes: 72,
            },
            time_ns: 5,
            stack,
            native_stack: 0,
            tgid: 1,
            tid,
            value: 100,
            count: 1,
            kind: ProfileKind::WALL,
            python_status: PythonUnwindStatus::COMPLETE,
            holds_gil: 0,
            collects_garbage: 0,
            native_status: NativeUnwindStatus::COMPLETE,
            wait,
            memory: MemoryType::NONE,
            task: 0,
        }
    }

    fn running(tid: u32, stack: u64, python_status: PythonUnwindStatus) -> Sample {
        Sample {
            kind: ProfileKind::CPU,
            python_status,
            ..sample(tid, stack, WaitReason::NONE)
        }
    }

    /// A pass in which thread 2 sleeps and thread 3 runs.
    fn batch() -> Batch {
        let mut batch = Batch::default();
        batch.samples.push(sample(2, 7, WaitReason::SLEEP));
        batch.running.push(RunningThread {
            tgid: 1,
            tid: 3,
            elapsed_ns: 100,
            is_runnable: false,
            holds_gil: None,
        });
        batch
    }

    fn progress(snapshot: &Snapshot) -> SnapshotProgress {
        *snapshot.0.progress.borrow()
    }

    fn is_complete(snapshot: &Snapshot) -> bool {
        progress(snapshot) == SnapshotProgress::Complete
    }

    fn stack(snapshot: &Snapshot, tid: u32) -> Option<u64> {
        let threads = snapshot.threads();
        let thread = threads.iter().find(|thread| thread.tid == tid)?;
        Some(thread.stack?.sample.stack)
    }

    #[test]
    fn it_is_complete_when_each_thread_has_its_stack() {
        let snapshot = Snapshot::default();
        assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
        snapshot.add_batch(&batch());
        snapshot.add_batch(&batch());
        assert_eq!(progress(&snapshot), SnapshotProgress::NeedsSamples);
        assert_eq!((stack(&snapshot, 2), stack(&snapshot, 3)), (Some(7), None));
        snapshot.add_sample(&running(3, 8, PythonUnwindStatus::COMPLETE));
        assert!(is_complete(&snapshot));
        assert_eq!(stack(&snapshot, 3), Some(8));
    }

    #[test]
    fn a_deadlock_needs_a_second_pass() {
        let snapshot = Snapshot::default();
        let mut batch = batch();
        batch.running.clear();
        snapshot.add_batch(&batch);
        assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
        snapshot.add_batch(&batch);
        assert!(is_complete(&snapshot));
    }

    #[test]
    fn the_first_stack_stays_unless_frames_are_missing() {
        let snapshot = Snapshot::default();
        snapshot.add_batch(&batch());
        snapshot.add_sample(&running(2, 9, PythonUnwindStatus::COMPLETE));
        assert_eq!(stack(&snapshot, 2), Some(7));
        for (status, number, expected) in [
            (PythonUnwindStatus::TORN, 10, None),
            (PythonUnwindStatus::FRAME_FAULT, 11, Some(11)),
            (PythonUnwindStatus::FRAME_FAULT, 12, Some(11)),
            (PythonUnwindStatus::COMPLETE, 13, Some(13)),
            (PythonUnwindStatus::COMPLETE, 14, Some(13)),
        ] {
            snapshot.add_sample(&running(3, number, status));
            assert_eq!(stack(&snapshot, 3), expected);
        }
    }

    #[test]
    fn a_stack_that_was_not_proved_is_none_and_a_thread_that_has_ended_is_not_waited_for() {
        let snapshot = Snapshot::default();
        let mut batch = batch();
        batch.samples[0].python_status = PythonUnwindStatus::TORN;
        snapshot.add_batch(&batch);
        assert_eq!((stack(&snapshot, 2), stack(&snapshot, 3)), (None, None));
        assert_eq!(snapshot.threads().len(), 2);
        snapshot.add_batch(&Batch::default());
        assert!(is_complete(&snapshot));
        assert!(snapshot.threads().is_empty());
    }
}
