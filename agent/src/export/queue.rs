//! The queue and the counters of one exporter, shared by its worker and the callers.
//!
//! Invariants: the lock is held for a few assignments only; the queue is bounded in number and in
//! bytes; when it is full, the oldest batch is dropped: who can wait does so for [`ExportQueue::room`].

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{
    batch::ProfileBatch,
    counts::{Counts, DropReason},
    failure::DeliveryError,
};

/// Nobody waits for room in a queue from which nothing was taken for so long.
const STALL_LIMIT: Duration = Duration::from_secs(10);

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
    /// Notified when there may be room in the queue, or no use in waiting for it.
    freed: Notify,
}

/// What is still done with batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// They are accepted and delivered.
    #[default]
    Open,
    /// No more are accepted.
    Closed,
    /// No more are delivered either.
    Stopped,
}

#[derive(Default)]
pub(super) struct QueueState {
    limits: QueueLimits,
    batches: VecDeque<(usize, ProfileBatch)>,
    bytes: usize,
    phase: Phase,
    /// Whether the last delivery failed.
    is_failing: bool,
    /// Since when the queue is full.
    full_since: Option<Instant>,
    /// Whether batches were dropped since there was room.
    is_dropping: bool,
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

    /// Adds a batch; drops the oldest ones beyond the limits. Returns whether it is the first time
    /// since there was room.
    pub(super) fn push(&self, batch: &ProfileBatch) -> bool {
        let size = batch.size_bytes();
        let mut state = self.lock();
        state.counts.accepted += 1;
        if state.phase >= Phase::Closed {
            state.counts.dropped.add(DropReason::ShutDown, 1);
            return false;
        }
        let was_dropping = state.is_dropping;
        state.bytes += size;
        state.batches.push_back((size, batch.clone()));
        while state.exceeds_limits() {
            if state.take().is_none() {
                break;
            }
            state.counts.dropped.add(DropReason::QueueFull, 1);
            state.is_dropping = true;
        }
        if state.is_full() && state.full_since.is_none() {
            state.full_since = Some(Instant::now());
        }
        let begins_to_drop = state.is_dropping && !was_dropping;
        drop(state);
        self.arrived.notify_one();
        begins_to_drop
    }

    /// Waits until there is room for another batch, as long as batches are being delivered: not while
    /// deliveries fail, nor when nothing was taken for [`STALL_LIMIT`]. Cancel safe.
    pub(super) async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let Some(end) = self.lock().room_until() else {
                return;
            };
            // When it ends, there is no more use in waiting.
            let _ = timeout_at(end, freed).await;
        }
    }

    /// Removes the oldest batch, which counts as in hand.
    pub(super) fn take(&self) -> Option<ProfileBatch> {
        self.take_if(|_| true)
    }

    /// Removes the oldest batch if it is wanted; it counts as in hand.
    pub(super) fn take_if(
        &self,
        is_wanted: impl Fn(&ProfileBatch) -> bool,
    ) -> Option<ProfileBatch> {
        let mut state = self.lock();
        if !state.batches.front().is_some_and(|(_, it)| is_wanted(it)) {
            return None;
        }
        let batch = state.take()?;
        state.in_hand += 1;
        state.full_since = None;
        state.is_dropping = false;
        drop(state);
        self.freed.notify_one();
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

    /// Counts a payload as in hand that was in the spool.
    pub(super) fn hold(&self, count: impl FnOnce(&mut Counts)) {
        let mut state = self.lock();
        state.in_hand += 1;
        count(&mut state.counts);
    }

    /// Whether a batch waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.lock().batches.is_empty()
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// Counts a failed attempt.
    pub(super) fn failed(&self, failure: &DeliveryError) {
        self.freed.notify_one();
        let mut state = self.lock();
        state.is_failing = true;
        state.counts.failures.add(failure);
        #[cfg(test)]
        {
            state.last_failure = Some(failure.to_string());
        }
    }

    /// Deliveries work.
    pub(super) fn delivered(&self) {
        self.lock().is_failing = false;
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.lock();
        let mut counts = state.counts;
        counts.queued.memory = state.batches.len() as u64 + state.in_hand;
        counts
    }

    /// Accepts no more batches.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Closed);
        drop(state);
        self.arrived.notify_one();
        self.freed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().phase >= Phase::Closed
    }

    /// Stops delivery.
    pub(super) fn stop(&self) {
        self.lock().phase = Phase::Stopped;
        self.arrived.notify_one();
        self.stopped.notify_waiters();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().phase == Phase::Stopped
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

    fn is_full(&self) -> bool {
        self.batches.len() >= self.limits.max_batches || self.bytes >= self.limits.max_bytes
    }

    /// Until when to wait for room; [`None`] if that is not necessary or of no use.
    fn room_until(&self) -> Option<Instant> {
        if self.is_failing || self.phase >= Phase::Closed || !self.is_full() {
            return None;
        }
        let end = self.full_since? + STALL_LIMIT;
        (Instant::now() < end).then_some(end)
    }

    fn is_half_full(&self) -> bool {
        self.batches.len() > self.limits.max_batches / 2 || self.bytes > self.limits.max_bytes / 2
    }
}
