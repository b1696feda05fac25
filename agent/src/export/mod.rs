//! Delivery of profiles: one module per destination.
//!
//! [`Exporters::push`] never blocks; whoever can wait does so for [`Exporters::room`] before. Each destination has its own task, queue in memory and, if
//! configured, spool on disk, so that one that is slow or down does not affect the others.
//!
//! Invariants: queues and spools are bounded; drops and failures are counted by reason; no message
//! and no `Debug` output contains a secret.

mod batch;
mod counts;
mod destination;
mod failure;
mod failure_log;
mod file;
mod in_hand;
mod labels;
mod otlp;
mod parca;
mod pyroscope;
mod queue;
mod seldom;
mod shared_spool;
mod spool;
#[cfg(test)]
pub mod support;
mod suspects;
#[cfg(test)]
mod tests;
mod worker;

use std::{future::Future, io, mem, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tracing::warn;

pub use self::{
    batch::{BatchOptions, PprofNames, ProfileBatch, Unencodable},
    counts::Counts,
    file::FileConfig,
    otlp::{OtlpConfig, OtlpProtocol},
    parca::ParcaConfig,
    pyroscope::PyroscopeConfig,
    queue::QueueLimits,
    spool::{SpoolConfig, SpoolError},
};
pub use crate::http_client::{
    Authentication, ClientCertificate, HttpConfig, HttpConfigError, Retry, Secret, SecretSource,
    TlsConfig,
};

use self::{
    destination::Destination,
    file::FileDestination,
    otlp::{OtlpGrpc, OtlpHttp},
    parca::Parca,
    pyroscope::Pyroscope,
    queue::ExportQueue,
    spool::Spool,
    worker::Worker,
};

/// Time to move what is left from memory to the spools, after the time to deliver it.
const SPOOL_GRACE: Duration = Duration::from_secs(2);

/// Configuration of one exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterConfig {
    /// Name in metrics and messages.
    pub name: String,
    pub destination: DestinationConfig,
    /// Bounds of the queue in memory.
    pub queue: QueueLimits,
    /// Queue on disk, for when the destination fails.
    pub spool: Option<SpoolConfig>,
    /// Waits between attempts.
    pub retry: Retry,
}

/// Destination of an exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestinationConfig {
    /// A folder.
    File(FileConfig),
    /// Grafana Pyroscope.
    Pyroscope(PyroscopeConfig),
    /// Parca.
    Parca(ParcaConfig),
    /// OpenTelemetry.
    Otlp(OtlpConfig),
}

impl DestinationConfig {
    /// The names in the pprof that it needs; [`None`] where it needs none.
    #[must_use]
    pub fn pprof_names(&self) -> Option<PprofNames> {
        match self {
            Self::File(to) => Some(to.function_names.into()),
            Self::Pyroscope(to) => Some(to.function_names.into()),
            Self::Parca(to) => Some(to.pprof_names()),
            Self::Otlp(_) => None,
        }
    }
}

/// Why an exporter cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration of its destination is invalid.
    #[error("exporter '{name}': {source}")]
    Destination {
        /// The exporter.
        name: String,
        /// What is wrong.
        source: HttpConfigError,
    },
    /// Its folder cannot be created or opened.
    #[error(
        "exporter '{name}': the folder '{}' cannot be created or opened ({source}): set `folder` to one that the \
         agent's user can write to",
        folder.display()
    )]
    Folder {
        /// The exporter.
        name: String,
        /// Its folder.
        folder: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// Its spool cannot be opened.
    #[error("exporter '{name}': {source}")]
    Spool {
        /// The exporter.
        name: String,
        /// What is wrong.
        source: SpoolError,
    },
}

/// State of an exporter.
#[derive(Clone, Debug)]
pub struct ExporterStatus {
    /// Name of the exporter.
    pub name: String,
    /// Its counters.
    pub counts: Counts,
    /// Message of the last failure, which may be long over.
    #[cfg(test)]
    last_failure: Option<String>,
}

/// Where the status of exporters can be read, whoever has them.
#[derive(Default)]
pub struct Statuses(Vec<(String, Arc<ExportQueue>)>);

impl Statuses {
    /// Adds those of another set.
    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// The present status of each exporter.
    #[must_use]
    pub fn read(&self) -> Vec<ExporterStatus> {
        let status = |(name, queue): &(String, Arc<ExportQueue>)| ExporterStatus {
            name: name.clone(),
            counts: queue.counts(),
            #[cfg(test)]
            last_failure: queue.lock().last_failure.clone(),
        };
        self.0.iter().map(status).collect()
    }
}

/// All exporters.
///
/// Dropping this stops delivery; what is queued is moved to the spools.
pub struct Exporters(Vec<Exporter>);

struct Exporter {
    config: ExporterConfig,
    queue: Arc<ExportQueue>,
    task: JoinHandle<()>,
}

impl Exporters {
    /// No exporters.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Opens the spools and starts to deliver what is in them.
    ///
    /// # Errors
    ///
    /// When a configuration is invalid, or a folder or a spool cannot be opened. An unreachable destination and a
    /// missing file of credentials are no errors: both may appear later.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(configs: Vec<ExporterConfig>) -> Result<Self, StartError> {
        let mut exporters = Self(Vec::with_capacity(configs.len()));
        for config in configs {
            exporters.0.push(Exporter::start(config)?);
        }
        Ok(exporters)
    }

    /// Whether exporters with these configurations could start, but for their spools, which others may have open. Nothing
    /// is made for them.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn check(configs: &[ExporterConfig]) -> Result<(), StartError> {
        configs.iter().try_for_each(Exporter::check)
    }

    /// Those that have one of these configurations, the others, and the configurations that none has.
    #[must_use]
    pub fn split(mut self, configs: &[ExporterConfig]) -> (Self, Self, Vec<ExporterConfig>) {
        let all = mem::take(&mut self.0).into_iter();
        let (staying, others): (Vec<_>, Vec<_>) =
            all.partition(|exporter| configs.contains(&exporter.config));
        let is_missing =
            |config: &&ExporterConfig| !staying.iter().any(|exporter| exporter.config == **config);
        let missing = configs.iter().filter(is_missing).cloned().collect();
        (Self(staying), Self(others), missing)
    }

    /// Adds those of another set.
    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Queues a batch for all exporters. Never blocks.
    pub fn push(&self, batch: &ProfileBatch) {
        for exporter in &self.0 {
            if exporter.queue.push(batch) {
                let exporter = &exporter.config.name;
                warn!(
                    exporter,
                    "its queue is full: the oldest profiles are dropped"
                );
            }
        }
    }

    /// Waits until all exporters that deliver have room for another batch. Cancel safe.
    pub fn room(&self) -> impl Future<Output = ()> + use<> {
        let queues = self.0.iter().map(|exporter| Arc::clone(&exporter.queue));
        let queues: Vec<_> = queues.collect();
        async move {
            for queue in queues {
                queue.room().await;
            }
        }
    }

    /// The status of each exporter.
    #[must_use]
    pub fn status(&self) -> Vec<ExporterStatus> {
        self.statuses().read()
    }

    /// Where the status of each exporter can be read, even while another task shuts it down and after that.
    #[must_use]
    pub fn statuses(&self) -> Statuses {
        let source = |exporter: &Exporter| {
            let name = exporter.config.name.clone();
            (name, Arc::clone(&exporter.queue))
        };
        Statuses(self.0.iter().map(source).collect())
    }

    /// Delivers what is queued, for at most `limit`, then moves the rest to the spools within two
    /// seconds. What has no spool is counted as dropped.
    pub async fn shut_down(mut self, limit: Duration) -> Vec<ExporterStatus> {
        for exporter in &self.0 {
            exporter.queue.close();
        }
        let deadline = Instant::now() + limit;
        for exporter in &mut self.0 {
            exporter.end(deadline).await;
        }
        for exporter in &self.0 {
            exporter.queue.stop();
        }
        let deadline = Instant::now() + SPOOL_GRACE;
        for exporter in &mut self.0 {
            exporter.end(deadline).await;
            exporter.task.abort();
            exporter.queue.drop_all();
        }
        self.status()
    }
}

impl Drop for Exporters {
    fn drop(&mut self) {
        for exporter in &self.0 {
            exporter.queue.stop();
        }
    }
}

impl Exporter {
    fn check(config: &ExporterConfig) -> Result<(), StartError> {
        let name = config.name.clone();
        let made = match config.destination.clone() {
            DestinationConfig::File(to) => {
                return to.check().map_err(|source| StartError::Folder {
                    name,
                    folder: to.folder,
                    source,
                });
            }
            DestinationConfig::Pyroscope(to) => Pyroscope::new(to).map(drop),
            DestinationConfig::Parca(to) => Parca::new(to).map(drop),
            DestinationConfig::Otlp(to) => match to.protocol {
                OtlpProtocol::Grpc => OtlpGrpc::new(to.http, to.function_names).map(drop),
                OtlpProtocol::Http => OtlpHttp::new(to.http, to.function_names).map(drop),
            },
        };
        made.map_err(|source| StartError::Destination { name, source })
    }

    fn start(config: ExporterConfig) -> Result<Self, StartError> {
        let invalid = {
            let name = config.name.clone();
            move |source| StartError::Destination { name, source }
        };
        match config.destination.clone() {
            DestinationConfig::File(file) => {
                let folder = file.folder.clone();
                let name = config.name.clone();
                let destination =
                    FileDestination::new(file).map_err(|source| StartError::Folder {
                        name,
                        folder,
                        source,
                    })?;
                Self::run(config, destination)
            }
            DestinationConfig::Pyroscope(to) => {
                Self::run(config, Pyroscope::new(to).map_err(invalid)?)
            }
            DestinationConfig::Parca(to) => Self::run(config, Parca::new(to).map_err(invalid)?),
            DestinationConfig::Otlp(OtlpConfig {
                http,
                protocol,
                function_names: names,
            }) => match protocol {
                OtlpProtocol::Grpc => {
                    Self::run(config, OtlpGrpc::new(http, names).map_err(invalid)?)
                }
                OtlpProtocol::Http => {
                    Self::run(config, OtlpHttp::new(http, names).map_err(invalid)?)
                }
            },
        }
    }

    fn run<D: Destination>(config: ExporterConfig, destination: D) -> Result<Self, StartError> {
        let name = config.name.clone();
        let queue = Arc::new(ExportQueue::new(config.queue));
        let mut spool = None;
        if let Some(config) = &config.spool {
            let (opened, dropped) =
                Spool::open(config, D::FORMAT).map_err(|source| StartError::Spool {
                    name: name.clone(),
                    source,
                })?;
            queue.count(|counts| {
                counts.queued.spool = opened.len() as u64;
                counts.queued.spool_bytes = opened.bytes();
                counts.recovered = counts.queued.spool + dropped;
                counts.dropped.spool_full = dropped;
            });
            spool = Some(opened);
        }
        let worker = Worker::new(name, destination, Arc::clone(&queue), spool, config.retry);
        Ok(Self {
            config,
            queue,
            task: tokio::spawn(worker.run()),
        })
    }

    /// Waits for the end of the task.
    async fn end(&mut self, deadline: Instant) {
        if !self.task.is_finished() {
            // After a panic, what was in hand is counted as dropped.
            let _ = timeout_at(deadline, &mut self.task).await;
        }
    }
}
