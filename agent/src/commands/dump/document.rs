//! What `agent dump` prints, as data: its fields are those of `--json`, and stay as they are.

use std::{borrow::Cow, collections::HashMap, path::Path, time::Duration};

use serde::Serialize;

use super::{
    frames::{self, DumpedFrame},
    taken::{Capture, FoundProcess, TakenFrom},
    tasks::DumpedTask,
};
use crate::{
    commands::cli::ShownFrames,
    process::{is_stopped, thread_comm},
    profile::{IDLE_MARKER, LocationId, Profile, Sample, Wait},
    threads::SnapshotThread,
};

/// The number of the form of the document; another one when fields change their meaning or go.
const SCHEMA: u32 = 1;

/// The stacks of all threads.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    /// [`SCHEMA`].
    pub(super) schema: u32,
    /// When stacks were taken, as `2026-11-27T12:00:00.250Z`; null of a core dump.
    pub(super) time: Option<String>,
    /// Milliseconds between the first and the last instant of which there is a stack.
    pub(super) spread_ms: f64,
    /// Milliseconds for which stacks were taken.
    pub(super) duration_ms: f64,
    /// What all stacks lack, and why; null where they do not.
    pub(super) note: Option<String>,
    /// The core dump that all is from; null where it is from a process.
    pub(super) core: Option<DumpedCore>,
    /// Threads each of which waits for a lock that the next one holds, and the last one for that of the first.
    pub(super) deadlocks: Vec<Vec<Waiter>>,
    /// The process, then its descendants if they are wanted.
    pub(super) processes: Vec<DumpedProcess>,
}

/// A core dump.
#[derive(Debug, Serialize)]
pub(super) struct DumpedCore {
    /// Its path.
    pub(super) file: String,
    /// The signal for which it was written, as `SIGSEGV`; null of a process that went on.
    pub(super) signal: Option<String>,
    /// The thread that has received the signal.
    pub(super) signal_tid: Option<u32>,
    /// The address whose access has failed, in hexadecimal, for signals that have one.
    pub(super) signal_address: Option<String>,
    /// What is missing: bytes of the file, files that the process had mapped; null where nothing is.
    pub(super) missing: Option<String>,
}

/// A thread of a deadlock.
#[derive(Debug, Serialize)]
pub(super) struct Waiter {
    pub(super) tid: u32,
    pub(super) lock: String,
}

/// A process.
#[derive(Debug, Serialize)]
pub(super) struct DumpedProcess {
    pub(super) pid: u32,
    /// The process that started it, where that is known.
    pub(super) parent: Option<u32>,
    /// The kernel's name of it.
    pub(super) name: String,
    pub(super) command_line: Option<String>,
    /// Path of its executable.
    pub(super) executable: String,
    /// Its interpreter, as `CPython 3.12.1`; null where it has none.
    pub(super) runtime: Option<String>,
    /// Whether it is stopped, by a signal or a debugger.
    pub(super) stopped: bool,
    /// Source files that may have changed since it was started, so that lines of them may be others; with `--source`.
    pub(super) changed_files: Vec<String>,
    /// Its threads, the main thread first.
    pub(super) threads: Vec<DumpedThread>,
    /// The tasks of asyncio, in the order in which they were created on each thread; null without `--tasks`, or where
    /// [`tasks_note`](Self::tasks_note) says why.
    pub(super) tasks: Option<Vec<DumpedTask>>,
    /// Why there are no tasks, or which are missing.
    pub(super) tasks_note: Option<String>,
}

/// A thread.
#[derive(Debug, Serialize)]
pub(super) struct DumpedThread {
    pub(super) tid: u32,
    /// Its name in Python, else that of the kernel.
    pub(super) name: String,
    pub(super) state: State,
    /// What it waits for, as in `--event wall`; null where it does not wait.
    pub(super) wait: Option<&'static str>,
    /// Milliseconds for which it has waited; null where it does not wait, or that is not known.
    pub(super) waiting_ms: Option<f64>,
    /// The lock for which it waits, where its name is known.
    pub(super) lock: Option<String>,
    /// The thread that holds this lock, where that is known.
    pub(super) lock_holder: Option<u32>,
    /// Whether it waits for work.
    pub(super) idle: bool,
    /// Whether it held the GIL; null where that is not known, or there is none.
    pub(super) holds_gil: Option<bool>,
    /// The thread that held the GIL for which it waits, where it is known.
    pub(super) gil_holder: Option<u32>,
    /// Whether it collected garbage.
    pub(super) collects_garbage: bool,
    /// How its stack was taken; null where none was proved.
    pub(super) taken: Option<Taken>,
    /// Its stack, leaf first; null where none was proved.
    pub(super) frames: Option<Vec<DumpedFrame>>,
    /// With `--locals`: why there are no variables, or which are missing.
    pub(super) locals_note: Option<String>,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Running,
    /// It could run, and was on no processor.
    Runnable,
    Waiting,
}

/// How a stack was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Taken {
    /// In the context of the thread, while it ran.
    Sampled,
    /// From its memory; the thread did not run from before until after.
    Read,
    /// From a core dump, while which was written it stood still.
    Core,
}

impl Document {
    pub(super) fn new(capture: &Capture, frames: ShownFrames) -> Self {
        let is_of_core = capture.from != TakenFrom::Processes;
        let profile = if frames.internals {
            Cow::Borrowed(&capture.profile)
        } else {
            let crashed = crashed_stack(capture);
            let without = |stack: &_| crashed == Some(stack);
            Cow::Owned(capture.profile.without_calls(without))
        };
        let samples: HashMap<(u32, u32), &Sample> = profile
            .samples
            .iter()
            .map(|sample| {
                let thread = &profile.threads[sample.thread.0 as usize];
                let process = &profile.processes[thread.process.0 as usize];
                ((process.pid, thread.tid), sample)
            })
            .collect();
        let mut processes = Vec::<DumpedProcess>::new();
        for thread in &capture.threads {
            if processes.last().is_none_or(|last| last.pid != thread.tgid) {
                let found = capture.processes.get(&thread.tgid);
                let mut process = DumpedProcess::new(thread.tgid, found);
                process.stopped = !is_of_core && is_stopped(process.pid);
                processes.push(process);
            }
            let sample = samples.get(&(thread.tgid, thread.tid)).copied();
            let dumped = dumped_thread(capture, &profile, thread, sample, frames);
            if let Some(process) = processes.last_mut() {
                process.threads.push(dumped);
            }
        }
        for process in &mut processes {
            let pid = process.pid;
            process
                .threads
                .sort_by_key(|thread| (thread.tid != pid, thread.tid));
        }
        let deadlocks = capture.deadlocks.iter().map(|threads| {
            let waiters = threads.iter().map(|thread| Waiter {
                tid: thread.tid,
                lock: thread.lock.clone(),
            });
            waiters.collect()
        });
        Self {
            schema: SCHEMA,
            time: (!is_of_core)
                .then(|| humantime::format_rfc3339_millis(capture.profile.start).to_string()),
            spread_ms: milliseconds(spread(&capture.threads)),
            duration_ms: milliseconds(capture.duration),
            note: capture.note.clone(),
            core: None,
            deadlocks: deadlocks.collect(),
            processes,
        }
    }
}

impl DumpedProcess {
    pub(super) fn new(pid: u32, found: Option<&FoundProcess>) -> Self {
        let found = found.cloned().unwrap_or_default();
        let path = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            pid,
            parent: found.process.parent,
            name: found.process.name,
            command_line: found.command_line,
            executable: path(&found.process.executable),
            runtime: Some(found.process.runtime).filter(|runtime| !runtime.is_empty()),
            stopped: false,
            changed_files: Vec::new(),
            threads: Vec::new(),
            tasks: None,
            tasks_note: None,
        }
    }
}

/// What is shown of a thread.
fn dumped_thread(
    capture: &Capture,
    profile: &Profile,
    thread: &SnapshotThread,
    sample: Option<&Sample>,
    wanted: ShownFrames,
) -> DumpedThread {
    let SnapshotThread { tgid, tid, .. } = *thread;
    let kernel_name = || match capture.from {
        TakenFrom::Processes => thread_comm(tgid, tid),
        TakenFrom::CoreDump { .. } => None,
    };
    let stack = thread.stack.zip(sample);
    let known = stack.map(|(_, sample)| &*profile.threads[sample.thread.0 as usize].name);
    let name = known.filter(|name| !name.is_empty()).map(str::to_owned);
    let markers = stack.map(|(_, sample)| profile.leaf_markers(sample));
    let markers = markers.unwrap_or_default();
    let wait = match stack {
        Some(_) => markers.wait,
        None => Wait::from_reason(thread.seen),
    };
    DumpedThread {
        tid,
        name: name.or_else(kernel_name).unwrap_or_default(),
        state: match wait {
            None => State::Running,
            Some(Wait::Runnable) => State::Runnable,
            Some(_) => State::Waiting,
        },
        wait: wait.filter(|wait| *wait != Wait::Runnable).map(Wait::label),
        waiting_ms: stack
            .filter(|_| wait.is_some_and(|wait| wait != Wait::Runnable))
            .and_then(|(proved, _)| proved.waited)
            .map(milliseconds),
        lock: markers.lock.map(str::to_owned),
        lock_holder: stack.and_then(|(proved, _)| proved.lock_holder),
        idle: stack.is_some_and(|(_, sample)| is_idle(profile, sample)),
        holds_gil: stack
            .filter(|(proved, _)| capture.has_gil && proved.knows_state())
            .map(|(proved, _)| proved.sample.holds_gil != 0),
        gil_holder: stack.and_then(|(proved, _)| proved.gil_holder),
        collects_garbage: markers.collects_garbage,
        taken: stack.map(|(proved, _)| match capture.from {
            TakenFrom::CoreDump { .. } => Taken::Core,
            TakenFrom::Processes if proved.is_sample => Taken::Sampled,
            TakenFrom::Processes => Taken::Read,
        }),
        frames: stack.map(|(_, sample)| {
            let stack = &profile.stacks[sample.stack.0 as usize];
            frames::shown(profile, &stack[markers.count..], wanted)
        }),
        locals_note: None,
    }
}

/// The stack of the thread that has crashed, if one has: how it was called may be where it did.
fn crashed_stack(capture: &Capture) -> Option<&[LocationId]> {
    let TakenFrom::CoreDump { crashed } = capture.from else {
        return None;
    };
    let profile = &capture.profile;
    let tid_of = |sample: &&Sample| profile.threads[sample.thread.0 as usize].tid;
    let mut samples = profile.samples.iter();
    let sample = samples.find(|sample| Some(tid_of(sample)) == crashed)?;
    Some(&profile.stacks[sample.stack.0 as usize])
}

/// Whether a thread waits for work.
fn is_idle(profile: &Profile, sample: &Sample) -> bool {
    let root = profile.stacks[sample.stack.0 as usize].last();
    let root = root.and_then(|root| profile.location(*root).lines.first());
    root.is_some_and(|line| profile.function(line.function).name == IDLE_MARKER)
}

/// The time between the first and the last instant of which there is a stack.
fn spread(threads: &[SnapshotThread]) -> Duration {
    let stacks = || threads.iter().filter_map(|thread| thread.stack);
    let first = stacks().map(|stack| stack.since_ns).min();
    let last = stacks().map(|stack| stack.until_ns).max();
    let spread = first
        .zip(last)
        .map(|(first, last)| last.saturating_sub(first));
    Duration::from_nanos(spread.unwrap_or(0))
}

/// Milliseconds with three decimals.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
