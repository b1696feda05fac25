//! The exporters, and their replacement by others while the agent samples.
//!
//! Invariant: nothing here makes the main loop wait: what comes while the exporters are being
//! replaced is kept, within limits.

use std::{
    collections::VecDeque,
    future::{Future, pending},
    mem,
    time::Duration,
};

use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::export::{ExporterConfig, ExporterStatus, Exporters, ProfileBatch, StartError};

/// Most profiles that are kept while the exporters are being replaced.
const MAX_KEPT: usize = 4096;

/// Time until exporters that could not be started are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Where profiles go.
pub(super) struct Destinations {
    /// What the exporters were started with.
    config: Vec<ExporterConfig>,
    state: State,
}

enum State {
    Running(Exporters),
    /// Old and new exporters may share spools, which have one user at a time.
    Ending {
        end: JoinHandle<()>,
        next: Vec<ExporterConfig>,
        kept: VecDeque<ProfileBatch>,
    },
}

impl Destinations {
    pub(super) fn start(config: Vec<ExporterConfig>) -> Result<Self, StartError> {
        Ok(Self {
            state: State::Running(Exporters::start(config.clone())?),
            config,
        })
    }

    /// Whether there are other exporters than these, or there will be: those that could not be started are not there,
    /// whatever the configuration says.
    pub(super) fn differ_from(&self, config: &[ExporterConfig]) -> bool {
        let present = match &self.state {
            State::Running(_) => &self.config,
            State::Ending { next, .. } => next,
        };
        present != config
    }

    /// Passes a profile on.
    pub(super) fn push(&mut self, batch: ProfileBatch) {
        match &mut self.state {
            State::Running(exporters) => exporters.push(&batch),
            State::Ending { kept, .. } => {
                if kept.len() == MAX_KEPT {
                    kept.pop_front();
                    warn!("a profile is dropped: the exporters are still being replaced");
                }
                kept.push_back(batch);
            }
        }
    }

    /// Waits until all exporters that deliver have room for another profile. Cancel safe.
    pub(super) fn room(&self) -> impl Future<Output = ()> + use<> {
        let room = match &self.state {
            State::Running(exporters) => Some(exporters.room()),
            State::Ending { .. } => None,
        };
        async move {
            if let Some(room) = room {
                room.await;
            }
        }
    }

    pub(super) fn status(&self) -> Vec<ExporterStatus> {
        match &self.state {
            State::Running(exporters) => exporters.status(),
            State::Ending { .. } => Vec::new(),
        }
    }

    /// Replaces the exporters by others, when those of now have sent what is queued or `limit` is
    /// over.
    pub(super) fn replace(&mut self, config: Vec<ExporterConfig>, limit: Duration) {
        let nothing = State::Ending {
            end: tokio::spawn(async {}),
            next: Vec::new(),
            kept: VecDeque::new(),
        };
        self.state = match mem::replace(&mut self.state, nothing) {
            State::Running(exporters) => State::Ending {
                end: tokio::spawn(shut_down(exporters, limit)),
                next: config,
                kept: VecDeque::new(),
            },
            State::Ending { end, kept, .. } => State::Ending {
                end,
                next: config,
                kept,
            },
        };
    }

    /// Waits until the old exporters have ended, and starts the new ones. Cancel safe.
    pub(super) async fn replaced(&mut self) {
        let State::Ending { end, next, kept } = &mut self.state else {
            return pending().await;
        };
        // A task that panics has said so.
        let _ = end.await;
        let next = mem::take(next);
        let kept = mem::take(kept);
        match Exporters::start(next.clone()) {
            Ok(exporters) => {
                for batch in &kept {
                    exporters.push(batch);
                }
                info!(exporters = next.len(), "exporters started");
                self.config = next;
                self.state = State::Running(exporters);
            }
            Err(error) => {
                warn!("the exporters are unchanged: {error}");
                self.state = State::Ending {
                    end: tokio::spawn(tokio::time::sleep(RETRY)),
                    next: self.config.clone(),
                    kept,
                };
            }
        }
    }

    /// Sends what is queued.
    pub(super) async fn end(mut self, limit: Duration) {
        if matches!(self.state, State::Ending { .. }) {
            self.replaced().await;
        }
        if let State::Running(exporters) = self.state {
            shut_down(exporters, limit).await;
        }
    }
}

async fn shut_down(exporters: Exporters, limit: Duration) {
    for status in exporters.shut_down(limit).await {
        let dropped = status.counts.dropped.total();
        if dropped > 0 {
            warn!(exporter = status.name, dropped, "profiles dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::export::{DestinationConfig, FileConfig, QueueLimits, Retry};
    use crate::formats::FunctionNames;

    fn to_folder(folder: &Path) -> Vec<ExporterConfig> {
        vec![ExporterConfig {
            name: "file".to_owned(),
            destination: DestinationConfig::File(FileConfig {
                folder: folder.to_owned(),
                max_bytes: 1 << 20,
                max_age: Duration::from_secs(60),
                function_names: FunctionNames::default(),
            }),
            queue: QueueLimits::default(),
            spool: None,
            retry: Retry::default(),
        }]
    }

    #[tokio::test]
    async fn exporters_that_were_refused_can_be_tried_again() {
        const LIMIT: Duration = Duration::from_secs(1);
        let folder = tempfile::tempdir().unwrap();
        let first = to_folder(&folder.path().join("first"));
        let blocked = folder.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        let second = to_folder(&blocked.join("second"));
        let mut destinations = Destinations::start(first.clone()).unwrap();
        destinations.replace(second.clone(), LIMIT);
        assert!(!destinations.differ_from(&second));
        // It is refused, and the first one started again.
        destinations.replaced().await;
        destinations.replaced().await;
        assert!(!destinations.differ_from(&first));
        assert!(destinations.differ_from(&second));
        fs::remove_file(&blocked).unwrap();
        destinations.replace(second.clone(), LIMIT);
        destinations.replaced().await;
        assert!(!destinations.differ_from(&second));
        assert!(blocked.join("second").is_dir());
        destinations.end(LIMIT).await;
    }
}
