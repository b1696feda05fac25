//! What the sampling of `top` sends to its screen.

use std::time::Duration;

use crate::profile::Profile;

/// What happened.
#[derive(Debug)]
pub(super) enum Update {
    /// Sampling begins.
    Started(Box<Subject>),
    /// A window has ended.
    Window {
        /// A profile of each kind that is sampled.
        profiles: Vec<Profile>,
        /// For how long threads were looked at, by passes that each stand for a period.
        looked_at: Duration,
        /// Command lines of processes that were examined meanwhile.
        commands: Vec<(u32, String)>,
        status: Status,
    },
    /// Sampling has ended, with a sentence that says why.
    Ended(String),
}

/// What is sampled.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    /// For example `python3.12 (pid 4711, CPython 3.12.1)`, or the name of the host.
    pub(super) name: String,
    /// Its command line; empty for a host.
    pub(super) command: String,
    /// What is missing, as a sentence; empty if nothing is.
    pub(super) notice: String,
    /// Whether there are several processes.
    pub(super) has_processes: bool,
    /// Whether native frames are sampled.
    pub(super) has_native: bool,
    pub(super) waits: Waits,
}

/// What is sampled of threads that do not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    Nothing,
    /// What they wait for.
    Sampled,
    /// And who has the GIL.
    WithGil,
}

impl Subject {
    /// Whether elapsed time is sampled too.
    pub(super) fn has_wall(&self) -> bool {
        self.waits != Waits::Nothing
    }

    /// Whether it has a GIL.
    pub(super) fn has_gil(&self) -> bool {
        self.waits == Waits::WithGil
    }
}

/// What the agent has used and lost so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// Since the start of the agent.
    pub(super) at: Duration,
    /// CPU time.
    pub(super) used: Duration,
    pub(super) resident_bytes: u64,
    /// Samples that were lost.
    pub(super) lost: u64,
}
