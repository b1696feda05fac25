//! Exceptions: the thread that attaches the probe to interpreters, and bounds what it costs.
//!
//! ```text
//! session ─► sites      functions in files, by process
//!              │
//!              ▼
//! thread     recorder ─► probe: attach, detach, windows of time
//!              ▲
//!            schedule    what is recorded next, by what the last cost
//! ```
//!
//! Attaching waits for the memory of each process that maps the file, and detaching for all processors: nobody else
//! waits for this thread, but for a moment at the start and the end of a session.

mod estimate;
mod recorder;
mod schedule;

use std::{sync::mpsc, time::Duration};

use anyhow::Result;
use tracing::warn;

use self::{
    estimate::{RaiseEstimate, SharedEstimate},
    recorder::Recorder,
};
use super::probes::ProbeSites;
use crate::{bpf::RaiseProbe, workers::StoppableThread};

/// Most time for attaching the probe when the session starts, and for detaching it when it ends.
const LIMIT: Duration = Duration::from_secs(2);

/// Records exceptions until this is dropped.
pub(super) struct Raises {
    estimate: SharedEstimate,
    thread: Option<StoppableThread>,
}

impl Raises {
    /// Starts to record exceptions: where the sites say so by now, as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(probe: RaiseProbe, sites: ProbeSites) -> Result<Self> {
        let (attach, attached) = mpsc::channel();
        let estimate = SharedEstimate::default();
        let recorder = Recorder::new(probe, sites, estimate.clone());
        let thread = StoppableThread::start("exceptions", move |stopped| {
            if let Err(error) = recorder.run(stopped, attach) {
                warn!("exceptions are no longer recorded: {error}");
            }
        })?;
        // Where a process holds it up the session begins without.
        let _ = attached.recv_timeout(LIMIT);
        Ok(Self {
            estimate,
            thread: Some(thread),
        })
    }

    /// What has become unknown since the last call.
    pub(super) fn take_estimate(&self) -> RaiseEstimate {
        self.estimate.take()
    }

    /// Detaches the probe: no exception is recorded when this returns.
    pub(super) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop(LIMIT);
        }
    }
}

impl Drop for Raises {
    fn drop(&mut self) {
        self.stop();
    }
}
