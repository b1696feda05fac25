//! Exceptions: the thread that attaches the probe to interpreters, and bounds what it costs.
//!
//! ```text
//! session ─► sites      functions in files, by process
//!              │
//!              ▼
//! thread     recorder ─► probe: attach, detach, windows of time
//!              ▲
//!            schedule    what is recorded next, by what the last cost
//!            estimator   how many were raised in the time between
//! ```
//!
//! Attaching waits for the memory of each process that maps the file, and detaching for all processors: nobody else
//! waits for this thread, but for a moment at the start and the end of a session.

mod estimate;
mod estimator;
mod recent;
mod recorder;
mod schedule;

use anyhow::Result;

use self::{
    estimate::{RaiseEstimate, SharedEstimate},
    recorder::Recorder,
};
use super::probes::{ProbeSites, Recording};
use crate::bpf::RaiseProbe;

/// Records exceptions until this is dropped.
pub(super) struct Raises {
    estimate: SharedEstimate,
    recording: Recording,
}

impl Raises {
    /// Starts to record exceptions: where the sites say so by now, as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(probe: RaiseProbe, sites: &ProbeSites) -> Result<Self> {
        let estimate = SharedEstimate::default();
        let recorder = Recorder::new(probe, sites.clone(), estimate.clone());
        let recording =
            Recording::start(sites, |stopped, attached| recorder.run(stopped, attached))?;
        Ok(Self {
            estimate,
            recording,
        })
    }

    /// What the samples since the last call do not have.
    pub(super) fn take_estimate(&self) -> RaiseEstimate {
        self.estimate.take()
    }

    /// Records no more, in a moment: to detach the probe takes longer.
    pub(super) fn end(&self) {
        self.recording.ask();
    }

    /// Detaches the probe: no exception is recorded when this returns.
    pub(super) fn stop(&mut self) {
        self.recording.stop();
    }
}
