//! The queue and the counters of one exporter, shared by its worker and the callers.
//!
//! Invariants: the lock is held for a few assignments only; the queue is bounded in number and in
//! bytes; when it is full, the oldest batch is dropped.

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

/// Bounds of the queue in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most batches.
    pub max_batches: usize,
    /// Most bytes, approximately.
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

/// The queue; methods of the worker and of the callers.
#[derive(Default)]
pub(super) struct ExportQueue {
    state: Mutex<QueueState>,
    /// Notified when a batch is pushed, and when the queue is closed or stopped.
    arrived: Notify,
    /// Notified when the queue is stopped.
    stopped: Notify,
}

#[derive(Default)]
pub(super) struct QueueState {
    limits: QueueLimits,
    batches: VecDeque<(usize, ProfileBatch)>,
    bytes: usize,
    /// No batches are accepted any more.
    is_closed: bool,
    /// Nothing is delivered any more.
    is_stopped: bool,
    /// Counters, without the length of the queue.
    pub(super) counts: Counts,
    /// Batches taken by the worker that are neither delivered, dropped nor in the spool.
    pub(super) in_hand: u64,
    /// Message of the last failure.
    #[cfg(test)]
    pub(super) last_failure: Option<String>,
}

impl ExportQueue {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            state: Mutex::new(QueueState {
                limits,
                ..QueueState::default()
            }),
            ..Self::default()
        }
    }

    /// The state; consistent even after a panic of another holder.
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch; drops the oldest ones beyond the limits.
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
        while state.exceeds_limits() {
            if state.take().is_none() {
                break;
            }
            state.counts.dropped.add(DropReason::QueueFull, 1);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Removes the oldest batch, which counts as in hand.
    pub(super) fn take(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        let batch = state.take()?;
        state.in_hand += 1;
        Some(batch)
    }

    /// Removes the oldest batch if the queue is more than half full.
    pub(super) fn take_if_half_full(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        if !state.is_half_full() {
            return None;
        }
        let batch = state.take()?;
        state.in_hand += 1;
        Some(batch)
    }

    /// Puts back the batch that was taken last.
    pub(super) fn put_back(&self, batch: ProfileBatch) {
        let size = batch.size_bytes();
        let mut state = self.lock();
        state.in_hand -= 1;
        if state.exceeds_with(size) {
            state.counts.dropped.add(DropReason::QueueFull, 1);
        } else {
            state.bytes += size;
            state.batches.push_front((size, batch));
        }
    }

    /// Counts the outcome of a batch in hand: delivered, spooled or dropped.
    pub(super) fn finish(&self, count: impl FnOnce(&mut Counts)) {
        let mut state = self.lock();
        state.in_hand -= 1;
        count(&mut state.counts);
    }

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

    /// Accepts no more batches.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Stops delivery.
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

    /// Drops all batches in memory.
    pub(super) fn drop_all(&self) {
        let mut state = self.lock();
        let queued = state.batches.len() as u64 + state.in_hand;
        state.batches.clear();
        state.bytes = 0;
        state.in_hand = 0;
        state.counts.dropped.add(DropReason::ShutDown, queued);
    }

    /// Waits for a batch or the end; may return spuriously.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Waits until delivery is stopped.
    pub(super) async fn stopped(&self) {
        loop {
            let notified = self.stopped.notified();
            // Created before the check, so that a notification in between is not missed.
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

    fn exceeds_limits(&self) -> bool {
        self.batches.len() > self.limits.max_batches || self.bytes > self.limits.max_bytes
    }

    fn exceeds_with(&self, size: usize) -> bool {
        self.batches.len() >= self.limits.max_batches || self.bytes + size > self.limits.max_bytes
    }

    fn is_half_full(&self) -> bool {
        self.batches.len() > self.limits.max_batches / 2 || self.bytes > self.limits.max_bytes / 2
    }
}
