//! The spool of a worker, which is used on threads that may block on the disk.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::spawn_blocking;
use tracing::warn;

use super::{
    counts::{Counts, DropReason},
    seldom::Seldom,
    spool::Spool,
};

/// A spool behind a lock.
pub(super) struct SharedSpool {
    spool: Arc<Mutex<Spool>>,
    /// Payloads that could not be written.
    failures: Mutex<Seldom>,
}

/// Length and size of the spool.
#[derive(Clone, Copy)]
pub(super) struct SpoolUsage {
    payloads: u64,
    bytes: u64,
}

impl SharedSpool {
    pub(super) fn new(spool: Spool) -> Self {
        Self {
            spool: Arc::new(Mutex::new(spool)),
            failures: Mutex::default(),
        }
    }

    /// The spool, for what does not block.
    pub(super) fn lock(&self) -> MutexGuard<'_, Spool> {
        lock(&self.spool)
    }

    /// Logs that a payload could not be written, if that was not done lately.
    pub(super) fn log_failure(&self, exporter: &str, error: &io::Error) {
        if let Some(others) = lock(&self.failures).others() {
            warn!(
                exporter,
                others,
                "profiles are kept in memory, because they cannot be written to the spool: {error}"
            );
        }
    }

    /// Runs `work` with the spool on a thread that may block on the disk.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> io::Result<(SpoolUsage, T)> {
        let spool = Arc::clone(&self.spool);
        let done = spawn_blocking(move || {
            let mut spool = lock(&spool);
            let result = work(&mut spool);
            (SpoolUsage::new(&spool), result)
        });
        done.await.map_err(io::Error::other)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SpoolUsage {
    fn new(spool: &Spool) -> Self {
        Self {
            payloads: spool.len() as u64,
            bytes: spool.bytes(),
        }
    }

    /// Updates the counters, with the payloads dropped for the limit.
    pub(super) fn count(self, counts: &mut Counts, dropped: u64) {
        counts.queued.spool = self.payloads;
        counts.queued.spool_bytes = self.bytes;
        counts.dropped.add(DropReason::SpoolFull, dropped);
    }
}
