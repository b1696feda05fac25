//! A window of time as `top` keeps it: samples with their stacks, made of the profiles of the window.

use std::{sync::Arc, time::Duration};

use foldhash::HashMap;

use super::frames::{Frame, Functions, Stack};
use crate::{
    commands::summary::{subject_text, thread_name},
    profile::{IDLE_MARKER, LocationId, Profile, Sample as ProfileSample, Wait},
    text::printable,
};

/// A window of one kind of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// How long it was.
    pub(super) elapsed: Duration,
    /// For how long that is in its samples: as long, or as passes stand for which were made in it.
    pub(super) looked_at: Duration,
    pub(super) samples: Vec<Sample>,
    /// How many were taken.
    pub(super) taken: u64,
    /// Nanoseconds with the GIL, by process and thread.
    pub(super) gil_held: Vec<(u32, u32, u64)>,
    /// How many frames its stacks have, which is what takes memory, and one more for each sample.
    pub(super) frames: usize,
}

/// Equal samples.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) thread: Arc<Thread>,
    pub(super) stack: Stack,
    pub(super) activity: Activity,
    /// Nanoseconds.
    pub(super) value: u64,
    /// Whether the thread collects garbage.
    pub(super) collects_garbage: bool,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Runs,
    /// It could run and waits for a CPU.
    Runnable,
    WaitsForGil,
    /// It waits for something else.
    Waits,
    /// It is stopped by a signal, by a debugger, or frozen.
    Stopped,
    /// It waits for work.
    Idle,
}

/// A thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) process: Arc<Process>,
    pub(super) tid: u32,
    pub(super) name: String,
}

/// A process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// For example `python3.12 (pid 4711, CPython 3.12.1)`.
    pub(super) subject: String,
    pub(super) name: String,
    /// Implementation and version of the interpreter; empty without one.
    pub(super) runtime: String,
}

/// Which samples a table is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
}

impl Scope {
    pub(super) fn has(self, sample: &Sample) -> bool {
        self.has_thread(sample.thread.process.pid, sample.thread.tid)
    }

    pub(super) fn has_process(self, pid: u32) -> bool {
        self.pid.is_none_or(|wanted| wanted == pid)
    }

    pub(super) fn has_thread(self, pid: u32, tid: u32) -> bool {
        self.has_process(pid) && self.tid.is_none_or(|wanted| wanted == tid)
    }
}

impl Window {
    /// From a profile of the window.
    pub(super) fn new(profile: &Profile, functions: &mut Functions) -> Self {
        let threads = threads(profile);
        let locations = functions.of_locations(profile);
        let wait_depth = profile.depths_of_waits();
        let mut stacks = HashMap::default();
        let samples = profile.samples.iter().map(|sample| {
            let markers = profile.leaf_markers(sample);
            let stack = stacks.entry(sample.stack).or_insert_with(|| {
                let stack = &profile.stacks[sample.stack.0 as usize];
                let (waits, rest) = stack.split_at(wait_depth(sample));
                let frames = |ids: &[LocationId]| -> Vec<Frame> {
                    let frames = ids.iter().map(|id| &locations[id.0 as usize]);
                    frames.flatten().cloned().collect()
                };
                let waits = frames(waits.get(markers.count..).unwrap_or_default());
                functions.stack(waits, frames(rest))
            });
            let activity = match markers.wait {
                None => Activity::Runs,
                Some(Wait::Runnable) => Activity::Runnable,
                Some(Wait::Gil) => Activity::WaitsForGil,
                Some(Wait::Stopped) => Activity::Stopped,
                Some(_) if is_idle(profile, sample) => Activity::Idle,
                Some(_) => Activity::Waits,
            };
            Sample {
                thread: Arc::clone(&threads[sample.thread.0 as usize]),
                stack: stack.clone(),
                activity,
                value: sample.value,
                collects_garbage: markers.collects_garbage,
            }
        });
        let samples: Vec<_> = samples.collect();
        let frames: usize = stacks.values().map(Stack::len).sum();
        Self {
            elapsed: profile.duration,
            looked_at: profile.duration,
            frames: frames + samples.len(),
            samples,
            taken: profile.total(),
            gil_held: Vec::new(),
        }
    }

    /// From the profiles of elapsed time and of the time with the GIL.
    ///
    /// Each pass stands for a period, and where there are few, theirs are together longer or shorter than the
    /// window.
    pub(super) fn of_passes(
        profile: &Profile,
        gil_held: Option<&Profile>,
        looked_at: Duration,
        functions: &mut Functions,
    ) -> Self {
        let mut window = Self::new(profile, functions);
        window.looked_at = looked_at;
        if let Some(profile) = gil_held {
            let held = profile.samples.iter().map(|sample| {
                let thread = &profile.threads[sample.thread.0 as usize];
                let process = &profile.processes[thread.process.0 as usize];
                (process.pid, thread.tid, sample.value)
            });
            window.gil_held = held.collect();
        }
        window
    }
}

fn threads(profile: &Profile) -> Vec<Arc<Thread>> {
    let processes = profile.processes.iter().map(|process| {
        Arc::new(Process {
            pid: process.pid,
            subject: subject_text(process),
            name: printable(process.name.trim()).into_owned(),
            runtime: printable(&process.runtime).into_owned(),
        })
    });
    let processes: Vec<_> = processes.collect();
    let threads = profile.threads.iter().map(|thread| {
        Arc::new(Thread {
            process: Arc::clone(&processes[thread.process.0 as usize]),
            tid: thread.tid,
            name: thread_name(&thread.name).into_owned(),
        })
    });
    threads.collect()
}

/// Whether the root of a stack says that its thread waits for work.
fn is_idle(profile: &Profile, sample: &ProfileSample) -> bool {
    let root = profile.stacks[sample.stack.0 as usize].last();
    let line = root.and_then(|root| profile.location(*root).lines.first());
    line.is_some_and(|line| profile.function(line.function).name == IDLE_MARKER)
}
