//! The spool of a worker, which is used on threads that may block on the disk.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::spawn_blocking;

use super::{
    counts::{Counts, DropReason},
    spool::Spool,
};

/// A spool behind a lock.
#[derive(Clone)]
pub(super) struct SharedSpool(Arc<Mutex<Spool>>);

/// Length and size of the spool.
#[derive(Clone, Copy)]
pub(super) struct SpoolUsage {
    payloads: u64,
    bytes: u64,
}

impl SharedSpool {
    pub(super) fn new(spool: Spool) -> Self {
        Self(Arc::new(Mutex::new(spool)))
    }

    /// The spool, for what does not block.
    pub(super) fn lock(&self) -> MutexGuard<'_, Spool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the spool on a thread that may block on the disk.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> io::Result<(SpoolUsage, T)> {
        let spool = self.clone();
        let done = spawn_blocking(move || {
            let mut spool = spool.lock();
            let result = work(&mut spool);
            (SpoolUsage::new(&spool), result)
        });
        done.await.map_err(io::Error::other)
    }
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
