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
    counts::{Counts, Drop},
    failure::Failure,
};

/// Bounds of what waits in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most reports.
    pub reports: usize,
    /// Most bytes, roughly.
    pub bytes: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            reports: 256,
            bytes: 16 << 20,
        }
    }
}

/// What the caller and the task share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// A report came, or the end began.
    arrived: Notify,
    /// The end is over.
    stopped: Notify,
}

/// What the lock guards.
#[derive(Default)]
pub(super) struct State {
    limits: QueueLimits,
    reports: VecDeque<(usize, ProfileBatch)>,
    bytes: usize,
    /// No reports come any more.
    is_closed: bool,
    /// Nothing is sent any more.
    is_stopped: bool,
    /// What became of reports. That of those in the queue is not in here.
    pub(super) counts: Counts,
    /// Reports that the task has taken and that are neither delivered, dropped nor in the spool.
    pub(super) in_hand: u64,
    /// The last failure, in words.
    pub(super) last_failure: Option<String>,
}

impl Shared {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            state: Mutex::new(State {
                limits,
                ..State::default()
            }),
            ..Self::default()
        }
    }

    /// What the lock guards; a panic elsewhere does not make it wrong.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a report; the oldest ones go when there are too many.
    pub(super) fn push(&self, report: &ProfileBatch) {
        let size = report.size_bytes();
        let mut state = self.lock();
        state.counts.accepted += 1;
        if state.is_closed {
            state.counts.dropped.add(Drop::ShutDown, 1);
            return;
        }
        state.bytes += size;
        state.reports.push_back((size, report.clone()));
        while state.is_over() {
            if state.take().is_none() {
                break;
            }
            state.counts.dropped.add(Drop::QueueFull, 1);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// The oldest report, which is in hand then.
    pub(super) fn take(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        let report = state.take()?;
        state.in_hand += 1;
        Some(report)
    }

    /// The oldest report, if so many wait that there may soon be too many.
    pub(super) fn take_if_crowded(&self) -> Option<ProfileBatch> {
        let mut state = self.lock();
        if !state.is_crowded() {
            return None;
        }
        let report = state.take()?;
        state.in_hand += 1;
        Some(report)
    }

    /// Gives a report back that was taken last.
    pub(super) fn give_back(&self, report: ProfileBatch) {
        let size = report.size_bytes();
        let mut state = self.lock();
        state.in_hand -= 1;
        if state.is_over_with(size) {
            state.counts.dropped.add(Drop::QueueFull, 1);
        } else {
            state.bytes += size;
            state.reports.push_front((size, report));
        }
    }

    /// A report that was in hand is delivered, in the spool or nowhere.
    pub(super) fn settle(&self, settle: impl FnOnce(&mut Counts)) {
        let mut state = self.lock();
        state.in_hand -= 1;
        settle(&mut state.counts);
    }

    /// Counts something.
    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// Counts a failure and remembers its words.
    pub(super) fn failed(&self, failure: &Failure) {
        let mut state = self.lock();
        state.counts.failures.add(failure);
        state.last_failure = Some(failure.to_string());
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.lock();
        let mut counts = state.counts;
        counts.waiting.memory = state.reports.len() as u64 + state.in_hand;
        counts
    }

    /// No reports come any more.
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
        let waiting = state.reports.len() as u64 + state.in_hand;
        state.reports.clear();
        state.bytes = 0;
        state.in_hand = 0;
        state.counts.dropped.add(Drop::ShutDown, waiting);
    }

    /// Waits for a report or the end; may come back for no reason.
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

impl State {
    fn take(&mut self) -> Option<ProfileBatch> {
        let (size, report) = self.reports.pop_front()?;
        self.bytes -= size;
        Some(report)
    }

    fn is_over(&self) -> bool {
        self.reports.len() > self.limits.reports || self.bytes > self.limits.bytes
    }

    fn is_over_with(&self, size: usize) -> bool {
        self.reports.len() >= self.limits.reports || self.bytes + size > self.limits.bytes
    }

    fn is_crowded(&self) -> bool {
        self.reports.len() > self.limits.reports / 2 || self.bytes > self.limits.bytes / 2
    }
}
