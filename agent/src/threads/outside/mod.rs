//! Passes without the BPF programs, for those who may read a process but not load programs: visits through `/proc`, and
//! what is known of the processes in place of the maps.
//!
//! What is not there: stacks of threads that run, native and kernel frames, and processes that start meanwhile.
//!
//! Invariant: what was found out about a process is used for the program only that was examined.

mod thread_ids;
mod visits;

use std::collections::HashMap;

use agent_common::{
    layout::Layout,
    maps::{ProcessState, TrackedProcess},
};

pub(super) use self::visits::OutsideVisits;
use crate::{
    process::Process,
    python::{Interpreter, remote::Target},
};

/// The processes whose threads are visited, by their ids.
#[derive(Debug, Default)]
pub struct OutsideProcesses {
    known: HashMap<u32, KnownProcess>,
    layouts: Vec<Layout>,
}

#[derive(Debug)]
struct KnownProcess {
    opened: Process,
    tracked: TrackedProcess,
    /// [`None`] where it has no Python.
    target: Option<Target>,
}

impl OutsideProcesses {
    /// Adds a process that was examined.
    pub fn add(&mut self, opened: Process, interpreter: Option<&Interpreter>) {
        let mut tracked = TrackedProcess::default();
        if let Some(interpreter) = interpreter {
            // Visits have `pthread_self()` as the thread pointer, so that their distance is 0.
            tracked.interpreters_head = interpreter.interpreters_head;
            tracked.gil_holder = interpreter.gil_holder.unwrap_or(0);
            tracked.layout = u32::try_from(self.layouts.len()).unwrap_or(u32::MAX);
            self.layouts.push(interpreter.layout);
        }
        let known = KnownProcess {
            tracked,
            target: interpreter.map(Target::from),
            opened,
        };
        self.known.insert(known.opened.pid(), known);
    }

    /// What is known of a process that still runs the program that was examined.
    pub(super) fn process(&self, tgid: u32) -> Option<(TrackedProcess, ProcessState)> {
        let known = self.known.get(&tgid)?;
        let is_same = known.opened.is_same_program();
        is_same.then_some((known.tracked, ProcessState::NEW))
    }

    /// The layout with this index.
    pub(super) fn layout(&self, index: u32) -> Option<Layout> {
        self.layouts.get(index as usize).copied()
    }
}
