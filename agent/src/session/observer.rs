//! What a session reports while it samples.

use std::time::Duration;

use crate::{process::Process, profile};

/// Implemented by whoever owns a session: the table of targets of a host, the progress of a capture.
pub trait Observer {
    /// A process was examined, or was forked from one that was: then `opened` is [`None`].
    ///
    /// Returns whether to exclude it from sampling, or [`None`] to leave that as it is.
    fn on_process(
        &mut self,
        _process: &profile::Process,
        _opened: Option<&Process>,
    ) -> Option<bool> {
        None
    }

    /// A process has exited; samples of it may still be unreported.
    fn on_exit(&mut self, _pid: u32) {}

    /// Sampling has gone on for `elapsed` and taken so many samples.
    fn on_progress(&mut self, _elapsed: Duration, _samples: u64) {}
}

/// Ignores everything.
impl Observer for () {}
