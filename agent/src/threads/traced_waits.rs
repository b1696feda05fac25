//! Sampled waits on their way from the thread that reads them to the one that makes passes.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use agent_common::record::{EndedWait, StartedWait};

/// Most of them that wait.
const MAX_WAITING: usize = 64 << 10;

/// What the tracing of context switches has recorded of a wait.
#[derive(Clone, Debug)]
pub(super) enum TracedWait {
    Started(Box<StartedWait>),
    Ended(EndedWait),
}

/// What was recorded and not looked at yet, in its order. Clones are the same.
///
/// Invariant: of more than so many the rest is left out, and counted.
#[derive(Clone, Debug, Default)]
pub struct TracedWaits(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waits: Mutex<Vec<TracedWait>>,
    dropped: AtomicU64,
}

impl TracedWaits {
    /// Adds a wait that has begun.
    pub fn start(&self, started: Box<StartedWait>) {
        self.add(TracedWait::Started(started));
    }

    /// Adds the end of a wait.
    pub fn end(&self, ended: EndedWait) {
        self.add(TracedWait::Ended(ended));
    }

    /// How many records were left out so far.
    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Takes what is there.
    pub(super) fn take(&self) -> Vec<TracedWait> {
        std::mem::take(&mut *self.all())
    }

    fn add(&self, wait: TracedWait) {
        let mut all = self.all();
        if all.len() < MAX_WAITING {
            all.push(wait);
        } else {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<TracedWait>> {
        // It is consistent after every statement, so also after a panic.
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
