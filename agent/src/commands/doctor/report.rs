//! The report on a process: what is known of it, and whether it can be profiled.

use std::path::PathBuf;

use super::{dumps::lacks_capabilities, left_out::LeftOut, measured::Measured, native::NativeCode};
use crate::{
    bpf::Requirement,
    python::{self, Interpreter, Version},
    text::with_causes,
};

/// The report on a process.
#[derive(Debug)]
pub struct Report {
    /// Its id.
    pub pid: u32,
    /// Requirements on the system.
    pub requirements: Vec<Requirement>,
    /// The process, or why it cannot be described.
    pub process: anyhow::Result<About>,
    /// Its interpreter; [`None`] when there is no such process.
    pub python: Option<Result<Interpreter, python::Error>>,
    /// Its threads, if its interpreter could be read from outside.
    pub threads: Option<anyhow::Result<Threads>>,
    /// If it does not run Python, its descendants that do, with their versions: programs are often
    /// started by wrappers.
    pub descendants: Vec<(u32, Version)>,
    /// Its native code; [`None`] when there is no such process.
    pub native: Option<anyhow::Result<NativeCode>>,
    /// What its samples show, or why there are none; [`None`] until it was sampled.
    pub measured: Option<Result<Measured, String>>,
    /// What was left out because reading it takes too long.
    pub left_out: LeftOut,
}

/// A running process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its comm.
    pub name: String,
    /// Its executable.
    pub executable: PathBuf,
    /// Its id in each PID namespace, that of the agent's `/proc` first.
    pub namespace_pids: Vec<u32>,
    /// Whether it has another mount namespace than the agent; [`None`] when that may not be read.
    pub has_own_mounts: Option<bool>,
    /// What to do where its memory may not be read.
    pub unreadable: Option<String>,
}

/// Threads of an interpreter as read from outside, which verifies its layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads with complete stacks.
    pub complete: usize,
    /// Threads with truncated stacks, which happens to threads that run meanwhile.
    pub truncated: usize,
    /// Frames of all threads.
    pub frames: usize,
}

impl Report {
    /// Whether a capture would start.
    #[must_use]
    pub fn is_profilable(&self) -> bool {
        self.obstacles().is_empty()
    }

    /// Whether `agent dump` works all the same, without the BPF programs.
    #[must_use]
    pub fn is_dumpable(&self) -> bool {
        let is_readable = |about: &About| about.unreadable.is_none();
        lacks_capabilities(&self.requirements)
            && self.process.as_ref().is_ok_and(is_readable)
            && matches!(self.python, Some(Ok(_)))
    }

    /// What prevents a capture, each with what to do.
    ///
    /// A missing interpreter does not: there are native frames.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let unmet = self
            .requirements
            .iter()
            .filter_map(|one| one.met.as_ref().err())
            .map(ToString::to_string);
        let process = match &self.process {
            Ok(about) => about
                .unreadable
                .as_ref()
                .map(|hint| format!("permission to read process {} is missing: {hint}", self.pid)),
            Err(error) => Some(with_causes(error)),
        };
        let measured = match &self.measured {
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(_)) | None => None,
        };
        unmet.chain(process).chain(measured).collect()
    }
}
