//! The thread that attaches probes.

use std::{sync::mpsc, time::Duration};

use anyhow::Result;
use tracing::warn;

use super::sites::ProbeSites;
use crate::{bpf::Error, workers::StoppableThread};

/// Most time for attaching the probes when the session starts, and for detaching them when it ends.
const LIMIT: Duration = Duration::from_secs(2);

/// Records until this is dropped.
pub(in crate::session) struct Recording(Option<StoppableThread>);

impl Recording {
    /// Starts a thread that runs until its channel has a message, and drops the sender as soon as the probes are
    /// attached in the `sites` that are known by now: then this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(in crate::session) fn start(
        sites: &ProbeSites,
        run: impl FnOnce(&mpsc::Receiver<()>, mpsc::Sender<()>) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self> {
        let (attach, attached) = mpsc::channel();
        let subject = sites.subject();
        let thread = StoppableThread::start(subject, move |stopped| {
            if let Err(error) = run(stopped, attach) {
                warn!("{subject} are no longer recorded: {error}");
            }
        })?;
        // Where a process holds it up the session begins without.
        let _ = attached.recv_timeout(LIMIT);
        Ok(Self(Some(thread)))
    }

    /// Has the thread end soon.
    pub(in crate::session) fn ask(&self) {
        if let Some(thread) = &self.0 {
            thread.ask();
        }
    }

    /// Detaches the probes: nothing is recorded when this returns.
    pub(in crate::session) fn stop(&mut self) {
        if let Some(thread) = self.0.take() {
            thread.stop(LIMIT);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop();
    }
}
