//! Exporters against collectors on real sockets, on a clock that only moves when it is told to.

mod away;
mod credentials;
mod failures;
mod otlp;
mod receivers;
mod rules;
mod shut_down;
mod tls;

use std::{sync::mpsc, thread, time::Duration};

use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;
use tokio::{task::spawn_blocking, time};

use super::{
    Config, Counts, DestinationConfig, Exporters, HttpConfig, ParcaConfig, ProfileBatch,
    PyroscopeConfig, QueueLimits, Retry, SpoolConfig, Status, support,
};
use crate::{
    collectors,
    formats::{EncodeOptions, Format, encode},
    profile::fixtures::example_profile,
};

/// A clock that stands still: without it, the runtime would take the time that a socket needs for
/// idleness, and jump to the next timeout.
struct Clock {
    _running: mpsc::Sender<()>,
}

impl Clock {
    fn stop() -> Self {
        time::pause();
        let (running, wait) = mpsc::channel::<()>();
        // Time does not pass by itself while there is work like this.
        drop(spawn_blocking(move || wait.recv()));
        Self { _running: running }
    }

    /// Waits for what comes when a few seconds have passed, one by one: a request that is under
    /// way must not be taken for one that hangs.
    async fn pass_until(&self, mut is_so: impl FnMut() -> bool) {
        for _ in 0..4_000 {
            if is_so() {
                return;
            }
            self.pass(Duration::from_secs(1)).await;
        }
        panic!("it never came");
    }

    /// Lets some time pass, and those who waited for it work.
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

/// Gives sockets and disks some real time.
async fn breathe() {
    for _ in 0..5 {
        spawn_blocking(|| thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
}

/// Waits, in real time, for what will surely come.
async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        spawn_blocking(|| thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
    panic!("it never came");
}

/// A profile as it is handed over, of a service with a number.
fn numbered(number: usize) -> ProfileBatch {
    support::report(&format!("service {number:03}"), &pprof())
}

/// A real profile.
fn pprof() -> Vec<u8> {
    let mut bytes = Vec::new();
    let profile = example_profile("/srv/app/main.py");
    encode(
        &profile,
        Format::Pprof,
        &EncodeOptions::default(),
        &mut bytes,
    )
    .unwrap();
    bytes
}

/// A report that does not get smaller.
fn large(bytes: usize) -> ProfileBatch {
    let mut random = fastrand::Rng::with_seed(42);
    let noise: Vec<_> = (0..bytes).map(|_| random.u8(..)).collect();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(&noise).unwrap();
    support::report("large", &gzip.finish().unwrap())
}

fn exporter(to: DestinationConfig) -> Config {
    Config {
        name: "test".to_owned(),
        to,
        queue: QueueLimits::default(),
        spool: None,
        retry: Retry::default(),
    }
}

fn pyroscope(url: &str) -> Config {
    exporter(DestinationConfig::Pyroscope(PyroscopeConfig {
        http: HttpConfig::new(url),
        tenant: None,
    }))
}

fn parca(url: &str) -> Config {
    exporter(DestinationConfig::Parca(ParcaConfig {
        http: HttpConfig::new(url),
    }))
}

fn with_spool(mut config: Config, folder: &std::path::Path) -> Config {
    config.spool = Some(SpoolConfig {
        folder: folder.to_owned(),
        limit_bytes: 64 << 20,
    });
    config
}

fn start(config: Config) -> Exporters {
    Exporters::start(vec![config]).unwrap()
}

/// The counts of the only exporter, which are consistent at any time.
fn counts(exporters: &Exporters) -> Counts {
    checked(&exporters.status()[0])
}

fn checked(status: &Status) -> Counts {
    let counts = status.counts;
    assert_eq!(
        counts.accepted + counts.found,
        counts.delivered + counts.dropped.total() + counts.waiting.total(),
        "{counts:?}"
    );
    counts
}
