//! A profile: tables, and samples that refer to them by index.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use super::{
    executable::Executable,
    indices::{ExecutableId, FunctionId, LocationId, ProcessIndex, StackId, ThreadIndex},
    location::{Function, Location},
    losses::{FilteredOut, Losses},
    process::Process,
    unwind_stats::UnwindStats,
};

/// Samples of some processes over some time.
#[derive(Clone, Debug)]
pub struct Profile {
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// CPU time that one sample stands for.
    pub period: Duration,
    /// What the series is called that the profile is of, as [`labels`](crate::targets::labels) has it; empty
    /// for a capture.
    pub labels: BTreeMap<String, String>,
    /// The processes that samples are of; [`ProcessIndex`] is an index. When there are no samples,
    /// the process whose samples were waited for, if it is known.
    pub processes: Vec<Process>,
    /// What native and kernel frames lie in; [`ExecutableId`] is an index.
    pub executables: Vec<Executable>,
    /// The functions; [`FunctionId`] is an index.
    pub functions: Vec<Function>,
    /// What frames stand at; [`LocationId`] is an index.
    pub locations: Vec<Location>,
    /// Distinct stacks; [`StackId`] is an index.
    pub stacks: Vec<Stack>,
    /// Threads; [`ThreadIndex`] is an index.
    pub threads: Vec<Thread>,
    /// How often each stack was seen in each thread; at most one entry for a pair.
    pub samples: Vec<Sample>,
    /// How far native walks came; at most one entry for a process, none for one of which no sample
    /// was walked.
    pub unwind_stats: Vec<UnwindStats>,
    /// What was lost or could not be told.
    pub losses: Losses,
    /// What is not there because nobody wanted it.
    pub filtered_out: FilteredOut,
}

/// A stack, leaf first.
pub type Stack = Box<[LocationId]>;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process that it is of.
    pub process: ProcessIndex,
    /// Its id, as the agent sees it; 0 stands for all threads of its process together.
    pub tid: u32,
    /// `threading.Thread.name` where it is known, else the kernel's name of the thread.
    pub name: String,
}

/// How often a stack was seen in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadIndex,
    /// How many sampling periods.
    pub count: u64,
}

impl Profile {
    /// The process that a sample is of.
    ///
    /// # Panics
    ///
    /// When `sample` is not of this profile.
    #[must_use]
    pub fn process_of(&self, sample: &Sample) -> ProcessIndex {
        self.threads[sample.thread.0 as usize].process
    }

    /// What a frame stands at.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.0 as usize]
    }

    /// A function.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// What some code lies in.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn executable(&self, id: ExecutableId) -> &Executable {
        &self.executables[id.0 as usize]
    }

    /// Sampling periods in all samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).sum()
    }
}
