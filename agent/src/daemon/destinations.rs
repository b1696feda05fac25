//! The exporters, and their replacement by others while the agent samples.
//!
//! Invariants: nothing here makes the main loop wait: what comes while exporters are being
//! replaced is kept for the new ones, within limits; those whose configuration is the same go on, with their queues and
//! counters; those that end have a status until their successors start; a configuration that cannot work replaces nothing.

use std::{
    collections::VecDeque,
    future::{Future, pending},
    mem,
    time::Duration,
};

use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::export::{
    ExporterConfig, ExporterStatus, Exporters, ProfileBatch, StartError, Statuses,
};

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
    Replacing {
        /// Those that go on.
        staying: Exporters,
        /// The end of the others.
        end: JoinHandle<()>,
        /// The status of those.
        ending: Statuses,
        /// All that there will be.
        next: Vec<ExporterConfig>,
        /// Those of them that are to be started.
        missing: Vec<ExporterConfig>,
        /// What came for those.
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
            State::Replacing { next, .. } => next,
        };
        present != config
    }

    /// Passes a profile on.
    pub(super) fn push(&mut self, batch: ProfileBatch) {
        match &mut self.state {
            State::Running(exporters) => exporters.push(&batch),
            State::Replacing {
                staying,
                missing,
                kept,
                ..
            } => {
                staying.push(&batch);
                if missing.is_empty() {
                    return;
                }
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
        self.present().room()
    }

    /// Those that deliver now.
    fn present(&self) -> &Exporters {
        match &self.state {
            State::Running(exporters)
            | State::Replacing {
                staying: exporters, ..
            } => exporters,
        }
    }

    pub(super) fn status(&self) -> Vec<ExporterStatus> {
        let mut status = self.present().status();
        if let State::Replacing { ending, .. } = &self.state {
            status.extend(ending.read());
        }
        status
    }

    /// Replaces those exporters whose configuration is not among these, when they have sent what is queued or `limit` is
    /// over.
    ///
    /// # Errors
    ///
    /// When one cannot be as it is configured; all are unchanged.
    pub(super) fn replace(
        &mut self,
        config: Vec<ExporterConfig>,
        limit: Duration,
    ) -> Result<(), StartError> {
        Exporters::check(&config)?;
        let nothing = State::Running(Exporters::none());
        let (present, before, mut statuses, kept) = match mem::replace(&mut self.state, nothing) {
            State::Running(exporters) => (exporters, None, Statuses::default(), VecDeque::new()),
            State::Replacing {
                staying,
                end,
                ending,
                kept,
                ..
            } => (staying, Some(end), ending, kept),
        };
        let (staying, ending, missing) = present.split(&config);
        statuses.append(ending.statuses());
        let end = tokio::spawn(async move {
            if let Some(before) = before {
                // A task that panics has said so.
                let _ = before.await;
            }
            shut_down(ending, limit).await;
        });
        self.state = State::Replacing {
            staying,
            end,
            ending: statuses,
            next: config,
            missing,
            kept,
        };
        Ok(())
    }

    /// Waits until the old exporters have ended, and starts the new ones; returns whether they have started. Cancel safe.
    pub(super) async fn replaced(&mut self) -> bool {
        let State::Replacing { end, .. } = &mut self.state else {
            return pending().await;
        };
        // A task that panics has said so.
        let _ = end.await;
        let State::Replacing {
            mut staying,
            mut ending,
            next,
            missing,
            kept,
            ..
        } = mem::replace(&mut self.state, State::Running(Exporters::none()))
        else {
            return true;
        };
        match Exporters::start(missing) {
            Ok(started) => {
                for batch in &kept {
                    started.push(batch);
                }
                staying.append(started);
                info!(exporters = next.len(), "exporters started");
                self.config = next;
                self.state = State::Running(staying);
                true
            }
            Err(error) => {
                warn!("the exporters are unchanged: {error}");
                let (staying, others, missing) = staying.split(&self.config);
                ending.append(others.statuses());
                self.state = State::Replacing {
                    staying,
                    end: tokio::spawn(async move {
                        shut_down(others, Duration::ZERO).await;
                        tokio::time::sleep(RETRY).await;
                    }),
                    ending,
                    next: self.config.clone(),
                    missing,
                    kept,
                };
                false
            }
        }
    }

    /// Sends what is queued.
    pub(super) async fn end(mut self, limit: Duration) {
        if matches!(self.state, State::Replacing { .. }) {
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
    use crate::export::{DestinationConfig, FileConfig, QueueLimits, Retry, support::batch};
    use crate::formats::FunctionNames;

    const LIMIT: Duration = Duration::from_secs(1);

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
        let folder = tempfile::tempdir().unwrap();
        let first = to_folder(&folder.path().join("first"));
        let blocked = folder.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        let second = to_folder(&blocked.join("second"));
        let mut destinations = Destinations::start(first.clone()).unwrap();
        assert!(destinations.replace(second.clone(), LIMIT).is_err());
        assert!(!destinations.differ_from(&first));
        assert!(destinations.differ_from(&second));
        fs::remove_file(&blocked).unwrap();
        destinations.replace(second.clone(), LIMIT).unwrap();
        destinations.replaced().await;
        assert!(!destinations.differ_from(&second));
        assert!(blocked.join("second").is_dir());
        destinations.end(LIMIT).await;
    }

    /// Else a change of one would lose what is queued for others, and their counters.
    #[tokio::test]
    async fn exporters_that_stay_the_same_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| {
            let mut config = to_folder(&folder.path().join(name)).remove(0);
            name.clone_into(&mut config.name);
            config
        };
        let accepted = |destinations: &Destinations| -> Vec<_> {
            let status = destinations.status().into_iter();
            status.map(|it| (it.name, it.counts.accepted)).collect()
        };
        let mut destinations = Destinations::start(vec![named("a"), named("b")]).unwrap();
        destinations.push(batch("one", b""));
        destinations
            .replace(vec![named("a"), named("c")], LIMIT)
            .unwrap();
        // One that comes meanwhile is for both.
        destinations.push(batch("two", b""));
        let expected = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        assert_eq!(accepted(&destinations), expected);
        destinations.replaced().await;
        let expected = [("a".to_owned(), 2), ("c".to_owned(), 1)];
        assert_eq!(accepted(&destinations), expected);
        // Another change while the last one is under way.
        destinations
            .replace(vec![named("a"), named("d")], LIMIT)
            .unwrap();
        destinations
            .replace(vec![named("a"), named("c")], LIMIT)
            .unwrap();
        destinations.replaced().await;
        destinations.push(batch("three", b""));
        let expected = [("a".to_owned(), 3), ("c".to_owned(), 1)];
        assert_eq!(accepted(&destinations), expected);
        destinations.end(LIMIT).await;
        let written = |name: &str| fs::read_dir(folder.path().join(name)).unwrap().count();
        assert_eq!((written("a"), written("b"), written("c")), (3, 1, 2));
    }
}
