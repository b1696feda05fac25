//! A window of time as `top` keeps it: samples with their stacks, made of the profiles of the window.

use std::{sync::Arc, time::Duration};

use foldhash::HashMap;

use super::frames::{Functions, Stack};
use crate::{
    commands::summary::subject_text,
    profile::{IDLE_MARKER, Profile, Sample as ProfileSample, Wait},
    text::printable,
};

/// A window of one kind of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// How long it was.
    pub(super) elapsed: Duration,
    pub(super) samples: Vec<Sample>,
    /// How many were taken.
    pub(super) taken: u64,
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

impl Window {
    /// From a profile of the window.
    pub(super) fn new(profile: &Profile, functions: &mut Functions) -> Self {
        let threads = threads(profile);
        let locations = functions.of_locations(profile);
        let mut stacks = HashMap::default();
        let samples = profile.samples.iter().map(|sample| {
            let markers = profile.leaf_markers(sample);
            let stack = stacks.entry(sample.stack).or_insert_with(|| {
                let stack = profile.stacks[sample.stack.0 as usize].iter();
                let frames = stack
                    .skip(markers.count)
                    .flat_map(|id| locations[id.0 as usize].iter().cloned());
                functions.stack(frames.collect())
            });
            let activity = match markers.wait {
                None => Activity::Runs,
                Some(Wait::Runnable) => Activity::Runnable,
                Some(Wait::Gil) => Activity::WaitsForGil,
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
        Self {
            elapsed: profile.duration,
            samples: samples.collect(),
            taken: profile.total(),
        }
    }

    /// How many frames its stacks have, which is what takes memory.
    pub(super) fn frames(&self) -> usize {
        self.samples.iter().map(|it| 1 + it.stack.len()).sum()
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
            name: printable(thread.name.trim()).into_owned(),
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
