//! Profiles on their way to collectors: one module per destination.
//!
//! The caller hands a [`ProfileBatch`] over and never waits; each destination has a task, a queue in
//! memory and, where it is wanted, a spool on disk of its own, so that one that is away or slow
//! costs the others nothing.
//!
//! Invariants: all that waits is bounded; what is dropped
//! and what fails is counted by reason; no secret is in any message or `Debug` output.

mod batch;
mod counts;
mod destination;
mod failure;
mod file;
mod labels;
mod otlp;
mod parca;
mod pyroscope;
mod queue;
mod spool;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tests;
mod worker;

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

pub use self::{
    batch::ProfileBatch,
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
    queue::SharedQueue,
    spool::Spool,
    worker::Worker,
};

/// How long what is left may take to get from memory to a spool, after the time to deliver it is
/// over.
const GRACE: Duration = Duration::from_secs(2);

/// One exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterConfig {
    /// What it is called in metrics and messages.
    pub name: String,
    /// Where it delivers to.
    pub destination: DestinationConfig,
    /// What may wait in memory.
    pub queue: QueueLimits,
    /// Where what the destination has not taken waits; without it, only in memory.
    pub spool: Option<SpoolConfig>,
    /// When failed attempts are repeated.
    pub retry: Retry,
}

/// A destination.
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

/// Why an exporter cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its destination cannot be what its configuration says.
    #[error("exporter '{name}': {source}")]
    Destination {
        /// The exporter.
        name: String,
        /// What is wrong.
        source: HttpConfigError,
    },
    /// It has no spool.
    #[error("exporter '{name}': {source}")]
    Spool {
        /// The exporter.
        name: String,
        /// What is wrong.
        source: SpoolError,
    },
}

/// How an exporter is doing.
#[derive(Clone, Debug)]
pub struct ExporterStatus {
    /// What it is called.
    pub name: String,
    /// What became of batches.
    pub counts: Counts,
    /// Message of the last failure, which may be long over.
    #[cfg(test)]
    last_failure: Option<String>,
}

/// All exporters.
///
/// When this is dropped, nothing is sent any more; what waits is moved to the spools.
pub struct Exporters(Vec<Exporter>);

struct Exporter {
    name: String,
    shared: Arc<SharedQueue>,
    task: JoinHandle<()>,
}

impl Exporters {
    /// Opens the spools and begins to deliver what is in them.
    ///
    /// # Errors
    ///
    /// When a configuration makes no sense, or a spool cannot be opened. That a destination cannot
    /// be reached, or a file with credentials is not there, is none: both may come.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn start(configs: Vec<ExporterConfig>) -> Result<Self, StartError> {
        let mut exporters = Self(Vec::with_capacity(configs.len()));
        for config in configs {
            exporters.0.push(Exporter::start(config)?);
        }
        Ok(exporters)
    }

    /// Hands a batch to all exporters. Never waits.
    pub fn push(&self, batch: &ProfileBatch) {
        for exporter in &self.0 {
            exporter.shared.push(batch);
        }
    }

    /// How they are doing.
    #[must_use]
    pub fn status(&self) -> Vec<ExporterStatus> {
        let status = |exporter: &Exporter| ExporterStatus {
            name: exporter.name.clone(),
            counts: exporter.shared.counts(),
            #[cfg(test)]
            last_failure: exporter.shared.lock().last_failure.clone(),
        };
        self.0.iter().map(status).collect()
    }

    /// Delivers what waits, for at most `limit`, and moves the rest to the spools, which takes two
    /// seconds at most. What has no spool then is counted as dropped.
    pub async fn shut_down(mut self, limit: Duration) -> Vec<ExporterStatus> {
        for exporter in &self.0 {
            exporter.shared.close();
        }
        let deadline = Instant::now() + limit;
        for exporter in &mut self.0 {
            exporter.end(deadline).await;
        }
        for exporter in &self.0 {
            exporter.shared.stop();
        }
        let deadline = Instant::now() + GRACE;
        for exporter in &mut self.0 {
            exporter.end(deadline).await;
            exporter.task.abort();
            exporter.shared.give_up();
        }
        self.status()
    }
}

impl Drop for Exporters {
    fn drop(&mut self) {
        for exporter in &self.0 {
            exporter.shared.stop();
        }
    }
}

impl Exporter {
    fn start(config: ExporterConfig) -> Result<Self, StartError> {
        let refused = {
            let name = config.name.clone();
            move |source| StartError::Destination { name, source }
        };
        match config.destination.clone() {
            DestinationConfig::File(file) => Self::run(config, FileDestination::new(file)),
            DestinationConfig::Pyroscope(to) => {
                Self::run(config, Pyroscope::new(to).map_err(refused)?)
            }
            DestinationConfig::Parca(to) => Self::run(config, Parca::new(to).map_err(refused)?),
            DestinationConfig::Otlp(OtlpConfig { http, protocol }) => match protocol {
                OtlpProtocol::Grpc => Self::run(config, OtlpGrpc::new(http).map_err(refused)?),
                OtlpProtocol::Http => Self::run(config, OtlpHttp::new(http).map_err(refused)?),
            },
        }
    }

    fn run<D: Destination>(config: ExporterConfig, destination: D) -> Result<Self, StartError> {
        let name = config.name;
        let shared = Arc::new(SharedQueue::new(config.queue));
        let mut spool = None;
        if let Some(config) = &config.spool {
            let (opened, dropped) =
                Spool::open(config, D::FORMAT).map_err(|source| StartError::Spool {
                    name: name.clone(),
                    source,
                })?;
            shared.count(|counts| {
                counts.queued.spool = opened.len() as u64;
                counts.queued.spool_bytes = opened.bytes();
                counts.found = counts.queued.spool + dropped;
                counts.dropped.spool_full = dropped;
            });
            spool = Some(opened);
        }
        let worker = Worker::new(
            name.clone(),
            destination,
            Arc::clone(&shared),
            spool,
            config.retry,
        );
        Ok(Self {
            name,
            shared,
            task: tokio::spawn(worker.run()),
        })
    }

    /// Waits for the end of the task.
    async fn end(&mut self, deadline: Instant) {
        if !self.task.is_finished() {
            // That it panicked would be counted as what was in hand.
            let _ = timeout_at(deadline, &mut self.task).await;
        }
    }
}
