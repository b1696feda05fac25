//! Exporters against collectors on real sockets, with a clock that is advanced by the tests.

mod away;
mod companions;
mod credentials;
mod failures;
mod kinds;
mod otlp;
mod receivers;
mod room;
mod rules;
mod shut_down;
mod tls;

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;
use tokio::{runtime::Handle, task::spawn_blocking, time};

use super::{
    Counts, DestinationConfig, ExporterConfig, ExporterStatus, Exporters, HttpConfig, ParcaConfig,
    ProfileBatch, PyroscopeConfig, QueueLimits, Retry, SpoolConfig, queue::ExportQueue, support,
};
use crate::{
    formats::{EncodeOptions, Format, FunctionNames, encode},
    profile::fixtures::example_profile,
};

/// A paused clock that does not advance by itself: otherwise the runtime would be idle while a socket
/// is waited for, and jump to the next timeout.
struct Clock {
    _running: mpsc::Sender<()>,
}

impl Clock {
    fn stop() -> Self {
        time::pause();
        let (running, wait) = mpsc::channel::<()>();
        // The runtime does not advance the clock while a blocking task runs.
        drop(spawn_blocking(move || wait.recv()));
        Self { _running: running }
    }

    /// Advances the clock second by second until the condition holds: with larger steps a request in
    /// flight would time out.
    async fn pass_until(&self, mut is_so: impl FnMut() -> bool) {
        for _ in 0..4_000 {
            if is_so() {
                return;
            }
            self.pass(Duration::from_secs(1)).await;
        }
        panic!("the condition never held");
    }

    /// Advances the clock and lets the tasks run.
    async fn pass(&self, duration: Duration) {
        time::advance(duration).await;
        breathe().await;
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        time::resume();
    }
}

/// Gives sockets and disks real time until the tasks have nothing more to do, which takes longer on a busy machine.
async fn breathe() {
    let runtime = Handle::current().metrics();
    let mut idle = 0;
    for _ in 0..2_000 {
        let parked = runtime.worker_park_count(0);
        spawn_blocking(|| thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
        let since = runtime.worker_park_count(0) - parked;
        // It waits once or twice for this.
        idle = if since <= 2 { idle + 1 } else { 0 };
        if idle == 5 {
            return;
        }
    }
}

/// Waits in real time until the condition holds.
async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        spawn_blocking(|| thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
    panic!("the condition never held");
}

/// A batch of a numbered service.
fn numbered(number: usize) -> ProfileBatch {
    support::batch(&format!("service {number:03}"), &pprof())
}

/// A batch of a numbered window; those of one window may be sent at the same time.
fn of_window(window: u32, number: usize) -> ProfileBatch {
    let mut batch = numbered(number);
    Arc::make_mut(&mut batch.profile).start += window * Duration::from_secs(15);
    batch
}

/// A valid profile.
fn pprof() -> Vec<u8> {
    let mut bytes = Vec::new();
    let profile = example_profile("/srv/app/main.py");
    encode(
        &profile,
        Format::Pprof,
        EncodeOptions::default(),
        &mut bytes,
    )
    .unwrap();
    bytes
}

/// A batch of incompressible bytes.
fn large(bytes: usize) -> ProfileBatch {
    let mut random = fastrand::Rng::with_seed(42);
    let noise: Vec<_> = (0..bytes).map(|_| random.u8(..)).collect();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(&noise).unwrap();
    support::batch("large", &gzip.finish().unwrap())
}

fn exporter(to: DestinationConfig) -> ExporterConfig {
    ExporterConfig {
        name: "test".to_owned(),
        destination: to,
        queue: QueueLimits::default(),
        spool: None,
        retry: Retry::default(),
    }
}

fn pyroscope(url: &str) -> ExporterConfig {
    exporter(DestinationConfig::Pyroscope(PyroscopeConfig {
        http: HttpConfig::new(url),
        tenant: None,
        function_names: FunctionNames::Module,
    }))
}

fn parca(url: &str) -> ExporterConfig {
    exporter(DestinationConfig::Parca(ParcaConfig {
        http: HttpConfig::new(url),
        function_names: FunctionNames::Module,
    }))
}

fn with_spool(mut config: ExporterConfig, folder: &std::path::Path) -> ExporterConfig {
    config.spool = Some(SpoolConfig {
        folder: folder.to_owned(),
        max_bytes: 64 << 20,
    });
    config
}

fn start(config: ExporterConfig) -> Exporters {
    Exporters::start(vec![config]).unwrap()
}

/// The counts of the only exporter, which are consistent at any time.
fn counts(exporters: &Exporters) -> Counts {
    checked(&exporters.status()[0])
}

/// The message of the last attempt that failed.
fn last_failure(exporters: &Exporters) -> String {
    exporters.status()[0].last_failure.clone().unwrap()
}

fn checked(status: &ExporterStatus) -> Counts {
    let counts = status.counts;
    assert_eq!(
        counts.accepted + counts.recovered,
        counts.delivered + counts.dropped.total() + counts.queued.total(),
        "{counts:?}"
    );
    counts
}
