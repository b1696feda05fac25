//! What the caller and the task of one exporter share: the queue in memory and the counts.
//!
//! Invariants: nobody waits here for anything but the lock, and nobody holds the lock for longer
//! than a few assignments; the queue is bounded in number and in bytes, and the oldest goes first.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{
    batch::ProfileBatch,
    counts::{Counts, DropReason},
    failure::DeliveryError,
};

/// Bounds of what waits in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most batches.
    pub max_batches: usize,
    /// Most bytes, roughly.
    pub max_bytes: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            max_batches: 256,
            max_bytes: 16 << 20,
        }
    }
}

/// What the caller and the task share.
#[derive(Default)]
pub(super) struct SharedQueue {
    state: Mutex<QueueState>,
    /// A batch came, or the end began.
    arrived: Notify,
    /// The end is over.
    stopped: Notify,
}

/// What the lock guards.
#[derive(Default)]
pub(super) struct QueueState {
    limits: QueueLimits,
    batches: VecDeque<(usize, ProfileBatch)>,
    bytes: usize,
    /// No batches come any more.
    is_closed: bool,
    /// Nothing is sent any more.
    is_stopped: bool,
    /// What became of batches. That of those in the queue is not in here.
    pub(super) counts: Counts,
    /// Batches that the task has taken and that are neither delivered, dropped nor in the spool.
    pub(super) in_hand: u64,
    /// Message of the last failure.
    #[cfg(test)]
    pub(super) last_failure: Option<String>,
}

impl SharedQueue {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            state: Mutex::new(QueueState {
                limits,
                ..QueueState::default()
            }),
            ..Self::default()
        }
    }

    /// What the lock guards; a panic elsewhere does not make it wrong.
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a batch; the oldest ones go when there are too many.
    pub(super) fn push(&self, batch: &ProfileBatch) {
        let size = batch.size_bytes();
        let mut state = self.lock();
        state.counts.accepted += 1;
        if state.is_closed {
            state.counts.dropped.add(DropReason::ShutDown, 1);
            return;
        }
        state.bytes += size;
        state.batches.push_back((size, batch.clone()));
        while state.is_over() {
            if state.take().is_none() {
                break;
            }
            state.counts.dropped.add(DropReason::QueueFull, 1);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// The oldest batch, which is in hand then.
    pub(super) fn take(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        let batch = state.take()?;
        state.in_hand += 1;
        Some(batch)
    }

    /// The oldest batch, if so many wait that there may soon be too many.
    pub(super) fn take_if_crowded(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        if !state.is_crowded() {
            return None;
        }
        let batch = state.take()?;
        state.in_hand += 1;
        Some(batch)
    }

    /// Gives a batch back that was taken last.
    pub(super) fn give_back(&self, batch: ProfileBatch) {
        let size = batch.size_bytes();
        let mut state = self.lock();
        state.in_hand -= 1;
        if state.is_over_with(size) {
            state.counts.dropped.add(DropReason::QueueFull, 1);
        } else {
            state.bytes += size;
            state.batches.push_front((size, batch));
        }
    }

    /// A batch that was in hand is delivered, in the spool or nowhere.
    pub(super) fn settle(&self, settle: impl FnOnce(&mut Counts)) {
        let mut state = self.lock();
        state.in_hand -= 1;
        settle(&mut state.counts);
    }

    /// Counts something.
    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// Counts a failed attempt.
    pub(super) fn failed(&self, failure: &DeliveryError) {
        let mut state = self.lock();
        state.counts.failures.add(failure);
        #[cfg(test)]
        {
            state.last_failure = Some(failure.to_string());
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.lock();
        let mut counts = state.counts;
        counts.queued.memory = state.batches.len() as u64 + state.in_hand;
        counts
    }

    /// No batches come any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Nothing is sent any more.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.is_stopped = true;
        drop(state);
        self.arrived.notify_one();
        self.stopped.notify_waiters();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// All that is in memory is given up.
    pub(super) fn give_up(&self) {
        let mut state = self.lock();
        let queued = state.batches.len() as u64 + state.in_hand;
        state.batches.clear();
        state.bytes = 0;
        state.in_hand = 0;
        state.counts.dropped.add(DropReason::ShutDown, queued);
    }

    /// Waits for a batch or the end; may come back for no reason.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Waits until nothing is sent any more.
    pub(super) async fn stopped(&self) {
        loop {
            let notified = self.stopped.notified();
            // Created first: what is said between the look and the wait is heard.
            if self.is_stopped() {
                return;
            }
            notified.await;
        }
    }
}

impl QueueState {
    fn take(&mut self) -> Option<ProfileBatch> {
        let (size, batch) = self.batches.pop_front()?;
        self.bytes -= size;
        Some(batch)
    }

    fn is_over(&self) -> bool {
        self.batches.len() > self.limits.max_batches || self.bytes > self.limits.max_bytes
    }

    fn is_over_with(&self, size: usize) -> bool {
        self.batches.len() >= self.limits.max_batches || self.bytes + size > self.limits.max_bytes
    }

    fn is_crowded(&self) -> bool {
        self.batches.len() > self.limits.max_batches / 2 || self.bytes > self.limits.max_bytes / 2
    }
}
