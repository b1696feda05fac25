//! Exceptions: the thread that attaches the probe to interpreters, and bounds what it costs.
//!
//! ```text
//! session ─► sites      places in files, by process
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
mod sites;

pub(super) use self::sites::RaiseSites;

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tracing::warn;

use self::{
    estimate::{RaiseEstimate, SharedEstimate},
    recorder::Recorder,
};
use crate::bpf::RaiseProbe;

/// Most time for attaching the probe when the session starts, and for detaching it when it ends.
const LIMIT: Duration = Duration::from_secs(2);

/// Records exceptions until this is dropped.
pub(super) struct Raises {
    estimate: SharedEstimate,
    stop: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Raises {
    /// Starts to record exceptions: where the sites say so by now, as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(probe: RaiseProbe, sites: RaiseSites) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (attach, attached) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let estimate = SharedEstimate::default();
        let shared = estimate.clone();
        let thread = thread::Builder::new()
            .name("exceptions".to_owned())
            .spawn(move || {
                let recorder = Recorder::new(probe, sites, shared);
                if let Err(error) = recorder.run(&stopped, attach) {
                    warn!("exceptions are no longer recorded: {error}");
                }
                // Nobody may wait for it.
                let _ = end.send(());
            })
            .context("cannot start a thread")?;
        // Where a process holds it up the session begins without.
        let _ = attached.recv_timeout(LIMIT);
        Ok(Self {
            estimate,
            stop,
            ended,
            thread: Some(thread),
        })
    }

    /// What has become unknown since the last call.
    pub(super) fn take_estimate(&self) -> RaiseEstimate {
        self.estimate.take()
    }

    /// Detaches the probe: no exception is recorded when this returns.
    pub(super) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // It may have ended.
        let _ = self.stop.send(());
        // A process may hold it up: then it is left behind.
        if self.ended.recv_timeout(LIMIT) != Err(RecvTimeoutError::Timeout) {
            // It has panicked: that was printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Raises {
    fn drop(&mut self) {
        self.stop();
    }
}
