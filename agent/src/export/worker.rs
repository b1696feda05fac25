//! The task of one exporter: takes batches from its queue and delivers them in order.
//!
//! ```text
//! queue in memory ──► in hand ──► destination
//!        │               │ failed        ▲
//!        ▼               ▼               │
//!      back ── spool ── front ───────────┘
//! ```
//!
//! The disk is not used while deliveries succeed. After a failure everything goes to the spool; while
//! a request is pending, only what the queue has no room for.
//!
//! Invariants: batches are delivered in the order in which they were pushed; a batch is in the queue,
//! in hand or in the spool until it is counted as delivered or dropped. A payload may be delivered
//! twice if the first response was lost, or if the agent was killed before it removed the payload
//! from the spool.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    select,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{
    batch::{Payload, ProfileBatch},
    counts::{Counts, DropReason},
    destination::{Destination, Receipt},
    failure::{Decision, DeliveryError},
    queue::ExportQueue,
    shared_spool::SharedSpool,
    spool::{Front, Spool},
};
use crate::http_client::{BackOff, Retry};

/// Pause before an unreadable spool is read again.
const SPOOL_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Worker<D> {
    /// Name of the exporter.
    name: String,
    destination: Arc<D>,
    queue: Arc<ExportQueue>,
    spool: Option<SharedSpool>,
    retry: Retry,
    /// The oldest payload, if it was not delivered and cannot be spooled.
    unspooled: Option<Payload>,
    /// Whether it was said that delivered profiles were removed.
    has_removed: bool,
}

/// The payload being delivered.
struct InHand {
    payload: Payload,
    is_in_spool: bool,
}

/// A payload that may itself be the cause of its failures.
struct FailingPayload {
    name: String,
    /// Time of its first failure.
    since: Instant,
}

impl<D: Destination> Worker<D> {
    pub(super) fn new(
        name: String,
        destination: D,
        queue: Arc<ExportQueue>,
        spool: Option<Spool>,
        retry: Retry,
    ) -> Self {
        Self {
            name,
            destination: Arc::new(destination),
            queue,
            spool: spool.map(SharedSpool::new),
            retry,
            unspooled: None,
            has_removed: false,
        }
    }

    /// Delivers until the queue is closed and empty, or stopped.
    pub(super) async fn run(mut self) {
        let mut back_off = BackOff::new(self.retry);
        let mut failing = None;
        let mut reported = None;
        while let Some(in_hand) = self.next().await {
            let result = self.attempt(&in_hand.payload).await;
            self.count_removed();
            match result {
                // Stopped while it was sent.
                None => self.keep(in_hand).await,
                Some(Ok(receipt)) => {
                    if reported.take().is_some() {
                        info!(exporter = self.name, "delivery works again");
                    }
                    self.queue.delivered();
                    back_off.reset();
                    failing = None;
                    self.finish(in_hand, |counts, bytes| {
                        counts.delivered += 1;
                        counts.delivered_bytes += bytes;
                        counts.partly_rejected += u64::from(receipt == Receipt::Partial);
                    })
                    .await;
                }
                Some(Err(failure)) => {
                    self.queue.failed(&failure);
                    // Once, however often it fails in the same way.
                    if reported.replace(failure.kind()) != Some(failure.kind()) {
                        self.log(&failure);
                    }
                    if let Some(reason) = self.drop_reason(&failure, &in_hand.payload, &mut failing)
                    {
                        // The next one may have the same name; its time starts anew.
                        failing = None;
                        self.finish(in_hand, |counts, _| counts.dropped.add(reason, 1))
                            .await;
                        continue;
                    }
                    let was_closed = self.queue.is_closed();
                    self.keep(in_hand).await;
                    if was_closed && self.spool.is_some() && self.unspooled.is_none() {
                        // The next run delivers it.
                        break;
                    }
                    let wait = back_off.wait(failure.retry_after());
                    self.pause(wait, was_closed).await;
                }
            }
        }
        self.spill(ExportQueue::take).await;
        self.queue.drop_all();
    }

    /// Counts delivered profiles that were removed because the disk was full, and says so once.
    fn count_removed(&mut self) {
        let removed = self.destination.take_removed();
        if removed == 0 {
            return;
        }
        self.queue
            .count(|counts| counts.removed_disk_full += removed);
        if !std::mem::replace(&mut self.has_removed, true) {
            warn!(
                exporter = self.name,
                removed, "the disk is full: the oldest profiles are removed for new ones"
            );
        }
    }

    fn log(&self, failure: &DeliveryError) {
        let exporter = &self.name;
        match failure.decision() {
            Decision::Drop(_) => warn!(exporter, "profile dropped: {failure}"),
            Decision::Retry | Decision::RetryWithLimit => {
                warn!(exporter, "delivery failed and is retried: {failure}");
            }
        }
    }

    /// The oldest payload; [`None`] at the end.
    async fn next(&mut self) -> Option<InHand> {
        loop {
            // Read before the queue, so that a batch pushed before the end is not missed.
            let is_closed = self.queue.is_closed();
            if self.queue.is_stopped() {
                return None;
            }
            if let Some(payload) = self.unspooled.take() {
                let is_in_spool = false;
                return Some(InHand {
                    payload,
                    is_in_spool,
                });
            }
            if let Some(payload) = self.front_of_spool().await {
                let is_in_spool = true;
                return Some(InHand {
                    payload,
                    is_in_spool,
                });
            }
            if self.queue.is_stopped() {
                return None;
            }
            if let Some(batch) = self.queue.take() {
                if let Some(payload) = self.pack(batch).await {
                    let is_in_spool = false;
                    return Some(InHand {
                        payload,
                        is_in_spool,
                    });
                }
            } else if is_closed {
                return None;
            } else {
                self.queue.arrived().await;
            }
        }
    }

    /// Tries to deliver a payload; [`None`] if delivery was stopped meanwhile.
    async fn attempt(&self, payload: &Payload) -> Option<Result<Receipt, DeliveryError>> {
        self.queue.count(|counts| counts.attempts += 1);
        let mut attempt = pin!(self.destination.send(payload));
        loop {
            select! {
                biased;
                result = &mut attempt => return Some(result),
                () = self.queue.stopped() => return None,
                () = self.queue.arrived(), if self.spool.is_some() => {
                    self.spill(ExportQueue::take_if_half_full).await;
                }
            }
        }
    }

    /// Why a failed payload is dropped; [`None`] if it is retried.
    fn drop_reason(
        &self,
        failure: &DeliveryError,
        payload: &Payload,
        failing: &mut Option<FailingPayload>,
    ) -> Option<DropReason> {
        match failure.decision() {
            Decision::Drop(reason) => Some(reason),
            Decision::Retry => None,
            Decision::RetryWithLimit => {
                let since = match failing {
                    Some(known) if known.name == payload.name => known.since,
                    _ => {
                        let since = Instant::now();
                        *failing = Some(FailingPayload {
                            name: payload.name.clone(),
                            since,
                        });
                        since
                    }
                };
                (since.elapsed() >= self.retry.max_elapsed).then_some(DropReason::GivenUp)
            }
        }
    }

    /// Waits before the next attempt, and moves new batches to the spool meanwhile.
    ///
    /// When the queue is closed, the next attempt follows at once; later waits are bounded by the first
    /// bound.
    async fn pause(&self, wait: Duration, was_closed: bool) {
        let wait = if was_closed {
            wait.min(self.retry.first)
        } else {
            wait
        };
        let mut end = pin!(sleep(wait));
        loop {
            self.spill(ExportQueue::take).await;
            select! {
                () = &mut end => return,
                () = self.queue.stopped() => return,
                () = self.queue.arrived() => {
                    if !was_closed && self.queue.is_closed() {
                        return;
                    }
                }
            }
        }
    }

    /// Puts a payload that was not delivered before all others, on disk if possible.
    async fn keep(&mut self, in_hand: InHand) {
        let Some(spool) = &self.spool else {
            self.unspooled = Some(in_hand.payload);
            return;
        };
        if in_hand.is_in_spool {
            spool.lock().release_front();
            return;
        }
        let payload = in_hand.payload.clone();
        match spool.run(move |spool| spool.push_front(&payload)).await {
            Ok((usage, Ok(dropped))) => self.queue.finish(|counts| usage.count(counts, dropped)),
            Ok((usage, Err((dropped, _)))) => {
                self.queue.count(|counts| {
                    counts.spool_failures += 1;
                    usage.count(counts, dropped);
                });
                self.unspooled = Some(in_hand.payload);
            }
            Err(_) => self.unspooled = Some(in_hand.payload),
        }
    }

    /// Removes a payload that is delivered or dropped.
    async fn finish(&self, in_hand: InHand, count: impl FnOnce(&mut Counts, u64)) {
        let bytes = in_hand.payload.body.len() as u64;
        if !in_hand.is_in_spool {
            self.queue.finish(|counts| count(counts, bytes));
            return;
        }
        let removed = match &self.spool {
            Some(spool) => spool.run(Spool::remove_front).await.ok(),
            None => None,
        };
        self.queue.count(|counts| {
            count(counts, bytes);
            if let Some((usage, ())) = removed {
                usage.count(counts, 0);
            }
        });
    }

    /// Moves the batches that `take` returns from memory to the spool, if there is one.
    async fn spill(&self, take: impl Fn(&ExportQueue) -> Option<ProfileBatch>) {
        let Some(spool) = &self.spool else {
            return;
        };
        while let Some(batch) = take(&self.queue) {
            let Some(payload) = self.pack(batch.clone()).await else {
                continue;
            };
            match spool.run(move |spool| spool.push_back(&payload)).await {
                Ok((usage, Ok(dropped))) => {
                    self.queue.finish(|counts| usage.count(counts, dropped));
                }
                Ok((usage, Err((dropped, _)))) => {
                    self.queue.count(|counts| {
                        counts.spool_failures += 1;
                        usage.count(counts, dropped);
                    });
                    self.queue.put_back(batch);
                    return;
                }
                Err(_) => {
                    self.queue.put_back(batch);
                    return;
                }
            }
        }
    }

    /// Encodes a batch in hand; drops it if that fails.
    async fn pack(&self, batch: ProfileBatch) -> Option<Payload> {
        let destination = Arc::clone(&self.destination);
        // It takes milliseconds, too long for the thread that reads samples.
        let packed = spawn_blocking(move || destination.pack(&batch)).await;
        let payload = packed.ok().and_then(Result::ok);
        if payload.is_none() {
            self.queue
                .finish(|counts| counts.dropped.add(DropReason::Unencodable, 1));
        }
        payload
    }

    /// The oldest payload in the spool, held there.
    async fn front_of_spool(&self) -> Option<Payload> {
        while !self.queue.is_stopped() {
            let spool = self.spool.as_ref()?;
            // The usual case, without a switch to another thread.
            if spool.lock().len() == 0 {
                return None;
            }
            let (usage, front) = spool.run(Spool::hold_front).await.ok()?;
            match front {
                Front::Empty => return None,
                Front::Payload(payload) => return Some(payload),
                Front::Torn => self.queue.count(|counts| {
                    usage.count(counts, 0);
                    counts.dropped.add(DropReason::SpoolTorn, 1);
                }),
                Front::Unreadable => {
                    self.queue.count(|counts| counts.spool_failures += 1);
                    select! {
                        () = sleep(SPOOL_RETRY) => {}
                        () = self.queue.stopped() => {}
                    }
                }
            }
        }
        None
    }
}
