//! Whether a process can be profiled, how that is known, and what to do if it cannot.
//!
//! It is first looked at from the outside, then sampled for a moment as a capture would.
//!
//! Invariants: to look at a process loads nothing into the kernel; to sample it loads the kernel
//! half, which is gone a moment later; the process is never stopped and nothing in it changes;
//! whatever is wrong is part of the report, which is always made.

mod measured;
mod native;
mod show;

use std::{path::PathBuf, time::Duration};

use agent_common::record::PythonUnwindStatus;

use crate::{
    kernel::{Requirement, requirements},
    process::{self, Process},
    python::{
        self, Detector, Interpreter, Version,
        outside::{self, ThreadStack},
    },
    run,
};
pub use measured::Measured;
pub use native::{Contents, NativeCode, NativeFile, RunTime, Symbols};

/// For how long a process is sampled.
const SAMPLED: Duration = Duration::from_secs(1);

/// Most processes below one that does not run Python that are looked at.
const MAX_DESCENDANTS: usize = 64;

/// What was found out about a process.
#[derive(Debug)]
pub struct Report {
    /// What was asked for.
    pub pid: u32,
    /// What agent needs of the system.
    pub requirements: Vec<Requirement>,
    /// The process.
    pub process: Result<About, process::Error>,
    /// Its interpreter; [`None`] when there is no process to look at.
    pub python: Option<Result<Interpreter, python::Error>>,
    /// Its threads, if it has an interpreter that could be read from the outside.
    pub threads: Option<Result<Threads, outside::Error>>,
    /// If it does not run Python, the processes below it that do, and their versions: what starts
    /// a program is often something else.
    pub descendants: Vec<(u32, Version)>,
    /// Its code; [`None`] when there is no process to look at.
    pub native: Option<Result<NativeCode, process::Error>>,
    /// What samples of it have shown, or why there could be none; [`None`] as long as it was not
    /// sampled.
    pub measured: Option<Result<Measured, String>>,
}

/// A process that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The kernel's name of it.
    pub name: String,
    /// What it runs.
    pub executable: PathBuf,
    /// Its id in each PID namespace, that of the agent's `/proc` first.
    pub namespace_pids: Vec<u32>,
    /// Whether it sees other files than the agent; [`None`] when that may not be known.
    pub has_own_mounts: Option<bool>,
}

/// How the threads of an interpreter look from the outside, which is a proof of its layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads that run Python, or wait in it.
    pub whole: usize,
    /// Threads whose stack did not lead to its root, which may happen to one that runs.
    pub broken: usize,
    /// Frames in all of them.
    pub frames: usize,
}

impl Threads {
    fn of(stacks: &[ThreadStack]) -> Self {
        let is_broken = |stack: &&ThreadStack| {
            !matches!(
                stack.end,
                PythonUnwindStatus::COMPLETE | PythonUnwindStatus::NO_FRAME
            )
        };
        let broken = stacks.iter().filter(is_broken).count();
        Self {
            whole: stacks.len() - broken,
            broken,
            frames: stacks.iter().map(|stack| stack.frames.len()).sum(),
        }
    }
}

/// Finds out all that is known about a process before it is sampled.
#[must_use]
pub fn examine(pid: u32) -> Report {
    let found = Process::open(pid);
    let mut detector = Detector::default();
    let python = found.as_ref().ok().map(|process| detector.detect(process));
    let descendants = match &python {
        Some(Err(python::Error::NotPython { .. })) => pythons_below(pid, &mut detector),
        _ => Vec::new(),
    };
    let threads = match (&found, &python) {
        (Ok(process), Some(Ok(interpreter))) => {
            Some(outside::threads(process, interpreter).map(|stacks| Threads::of(&stacks)))
        }
        _ => None,
    };
    let native = found.as_ref().ok().map(NativeCode::of);
    Report {
        pid,
        requirements: requirements(),
        process: found.map(|process| About::of(&process)),
        python,
        threads,
        descendants,
        native,
        measured: None,
    }
}

fn pythons_below(pid: u32, detector: &mut Detector) -> Vec<(u32, Version)> {
    process::descendants(pid)
        .into_iter()
        .take(MAX_DESCENDANTS)
        .filter_map(|descendant| {
            let process = Process::open(descendant.pid).ok()?;
            let python = detector.detect(&process).ok()?;
            Some((descendant.pid, python.version))
        })
        .collect()
}

impl About {
    fn of(process: &Process) -> Self {
        Self {
            name: process.name().to_owned(),
            executable: process.executable().to_owned(),
            namespace_pids: process.namespace_pids().to_vec(),
            has_own_mounts: process.has_own_mounts().ok(),
        }
    }
}

impl Report {
    /// Samples the process for a second, if a capture would start.
    ///
    /// Must be called within a tokio runtime.
    pub async fn measure(&mut self) {
        if self.is_profilable() {
            let sampled = run::sample(self.pid, SAMPLED).await;
            let measured = sampled.map(|profile| Measured::of(&profile));
            self.measured = Some(measured.map_err(|error| format!("{error:#}")));
        }
    }

    /// Whether a capture would start.
    #[must_use]
    pub fn is_profilable(&self) -> bool {
        self.obstacles().is_empty()
    }

    /// What is in the way of a capture; each says what to do.
    ///
    /// A process without Python is none: it has native frames.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let unmet = self
            .requirements
            .iter()
            .filter_map(|one| one.met.as_ref().err())
            .map(ToString::to_string);
        let process = self.process.as_ref().err().map(ToString::to_string);
        let measured = match &self.measured {
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(_)) | None => None,
        };
        unmet.chain(process).chain(measured).collect()
    }
}

#[cfg(test)]
mod tests;
