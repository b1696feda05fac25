//! What a session reports while it samples.

use std::time::Duration;

use crate::{profile, targets::labels::metadata::ProcessMetadata};

/// Implemented by whoever owns a session: the table of targets of a host, the progress of a capture.
pub trait Observer {
    /// A process was found.
    ///
    /// Returns whether to exclude it from sampling, or [`None`] to leave that as it is.
    fn on_process(&mut self, _process: &profile::Process, _origin: Origin) -> Option<bool> {
        None
    }

    /// A process has exited; samples of it may still be unreported.
    fn on_exit(&mut self, _pid: u32) {}

    /// Sampling has gone on for `elapsed` and taken so many samples.
    fn on_progress(&mut self, _elapsed: Duration, _samples: u64) {}

    /// These processes go on although those with which the capture began have ended.
    fn on_remaining(&mut self, _pids: &[u32]) {}

    /// So many processes have started that are sampled because they are selected, and so many run.
    fn on_followed(&mut self, _followed: &Followed) {}
}

/// What became of processes that started later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// How many have been sampled.
    pub started: u64,
    /// How many have not, because too many ran at the time.
    pub left_out: usize,
    /// How many are sampled now, with those that ran before.
    pub running: usize,
}

/// How a process was found.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// It was forked, and is a copy of its parent.
    Forked,
    /// It was examined; what labels are made of is absent if it was not wanted or could not be read.
    Examined(Option<&'a ProcessMetadata>),
}

/// Ignores everything.
impl Observer for () {}
