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
//! A payload may itself be the cause of its failure, as one of a service that the destination does not accept. While
//! others wait it is in doubt, and the next ones are tried: if one of them is delivered it is a
//! [suspect](super::suspects) from then on, and holds up nobody; if none is, the destination is the cause, and they all
//! wait for it in their order.
//!
//! Invariants: batches are delivered in the order in which they were pushed, but for suspects; a batch is in the queue,
//! in hand, in doubt, a suspect or in the spool until it is counted as delivered or dropped. A payload may be delivered
//! twice if the first response was lost, or if the agent was killed before it removed the payload
//! from the spool; one in doubt and a suspect are lost then.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use tokio::{
    select,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tracing::warn;

use super::{
    batch::{Payload, ProfileBatch},
    counts::{Counts, DropReason},
    destination::{Destination, Receipt},
    failure::{Decision, DeliveryError},
    failure_log::FailureLog,
    in_hand::{FailingPayload, InHand},
    queue::ExportQueue,
    shared_spool::SharedSpool,
    spool::{Front, Spool},
    suspects::{self, Failing, Suspects},
};
use crate::http_client::{BackOff, HttpErrorKind, Retry};

/// Pause before an unreadable spool is read again.
const SPOOL_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Worker<D> {
    /// Name of the exporter.
    name: String,
    destination: Arc<D>,
    queue: Arc<ExportQueue>,
    spool: Option<SharedSpool>,
    retry: Retry,
    /// The oldest payloads, of those that were not delivered and cannot be spooled.
    unspooled: VecDeque<Payload>,
    /// Payloads that have failed since the last one was delivered, the oldest first.
    in_doubt: VecDeque<Payload>,
    suspects: Suspects,
    log: FailureLog,
    /// Whether it was said that delivered profiles were removed.
    has_removed: bool,
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
            log: FailureLog::new(name.clone()),
            name,
            destination: Arc::new(destination),
            queue,
            spool: spool.map(SharedSpool::new),
            retry,
            unspooled: VecDeque::new(),
            in_doubt: VecDeque::new(),
            suspects: Suspects::new(retry),
            has_removed: false,
        }
    }

    /// Delivers until the queue is closed and empty, or stopped.
    pub(super) async fn run(mut self) {
        let mut back_off = BackOff::new(self.retry);
        let mut failing = None;
        // Suspects that have failed since the queue was closed.
        let mut left = Vec::new();
        while let Some(in_hand) = self.next().await {
            let result = self.attempt(&in_hand.payload).await;
            self.count_removed();
            match result {
                // Stopped while it was sent.
                None => self.keep(in_hand).await,
                Some(Ok(receipt)) => {
                    self.log.delivered();
                    self.queue.delivered();
                    back_off.reset();
                    let since = failing.take().map(|it: FailingPayload| it.since);
                    self.suspect_those_in_doubt(since);
                    self.finish(in_hand, |counts, bytes| {
                        counts.delivered += 1;
                        counts.delivered_bytes += bytes;
                        counts.partly_rejected += u64::from(receipt == Receipt::Partial);
                    })
                    .await;
                }
                Some(Err(failure)) => {
                    self.queue.failed(&failure);
                    self.log.failed(&failure, &in_hand.payload);
                    if let Some(since) = in_hand.suspect {
                        left.extend(self.suspect_again(in_hand, since, &failure).await);
                        continue;
                    }
                    if let Some(reason) = self.drop_reason(&failure, &in_hand.payload, &mut failing)
                    {
                        if self.in_doubt.is_empty() {
                            // The next one may have the same name; its time starts anew.
                            failing = None;
                        }
                        self.finish(in_hand, |counts, _| counts.dropped.add(reason, 1))
                            .await;
                        continue;
                    }
                    let was_closed = self.queue.is_closed();
                    if !was_closed && self.may_be_the_cause(&failure, &in_hand) {
                        self.doubt(in_hand).await;
                        if failure.kind() == Some(HttpErrorKind::Forbidden)
                            && failure.retry_after().is_none()
                        {
                            // The destination has no trouble that time would cure.
                            continue;
                        }
                    } else {
                        self.log.all_fail();
                        self.keep(in_hand).await;
                        self.keep_those_in_doubt().await;
                        if was_closed && self.spool.is_some() && self.unspooled.is_empty() {
                            // The next run delivers it.
                            break;
                        }
                    }
                    let wait = back_off.wait(failure.retry_after());
                    self.pause(wait, was_closed).await;
                }
            }
        }
        self.spill(ExportQueue::take).await;
        self.keep_those_in_doubt().await;
        while let Some((payload, _)) = self.suspects.take_oldest() {
            left.push(payload);
        }
        for payload in left {
            self.keep(InHand::in_memory(payload)).await;
        }
        self.queue.drop_all();
    }

    /// Whether a payload may itself be the cause of its failure, and there is another one to find that out with.
    fn may_be_the_cause(&self, failure: &DeliveryError, in_hand: &InHand) -> bool {
        if failure.decision() != Decision::RetryWithLimit {
            return false;
        }
        let bytes: usize = self.in_doubt.iter().map(|it| it.body.len()).sum();
        let has_room = self.in_doubt.len() < suspects::MAX_PAYLOADS
            && bytes + in_hand.payload.body.len() <= suspects::MAX_BYTES;
        let in_spool = self.spool.as_ref().map_or(0, |spool| spool.lock().len());
        has_room
            && (self.queue.has_waiting()
                || !self.unspooled.is_empty()
                || in_spool > usize::from(in_hand.is_in_spool))
    }

    /// Has the next payloads tried before this one.
    async fn doubt(&mut self, in_hand: InHand) {
        if let Some(spool) = self.spool.as_ref().filter(|_| in_hand.is_in_spool) {
            let Ok((usage, ())) = spool.run(Spool::remove_front).await else {
                return self.keep(in_hand).await;
            };
            self.queue.hold(|counts| usage.count(counts, 0));
        }
        self.in_doubt.push_back(in_hand.payload);
    }

    /// Another payload was delivered; the oldest of those in doubt has failed since then.
    fn suspect_those_in_doubt(&mut self, since: Option<Instant>) {
        let now = Instant::now();
        let mut since = since.unwrap_or(now);
        while let Some(payload) = self.in_doubt.pop_front() {
            self.suspect(payload, Failing { since, count: 0 });
            since = now;
        }
    }

    /// Has a payload tried again beside the others.
    fn suspect(&mut self, payload: Payload, failing: Failing) {
        for _ in self.suspects.add(payload, failing) {
            self.queue
                .finish(|counts| counts.dropped.add(DropReason::GivenUp, 1));
        }
    }

    /// A suspect has failed again. Returns it if it is not tried any more.
    async fn suspect_again(
        &mut self,
        in_hand: InHand,
        failing: Failing,
        failure: &DeliveryError,
    ) -> Option<Payload> {
        let is_over = failing.since.elapsed() >= self.retry.max_elapsed;
        let reason = match failure.decision() {
            Decision::Drop(reason) => Some(reason),
            Decision::RetryWithLimit => is_over.then_some(DropReason::GivenUp),
            Decision::Retry => None,
        };
        if let Some(reason) = reason {
            self.finish(in_hand, |counts, _| counts.dropped.add(reason, 1))
                .await;
            return None;
        }
        if self.queue.is_closed() {
            return Some(in_hand.payload);
        }
        let count = failing.count.saturating_add(1);
        self.suspect(in_hand.payload, Failing { count, ..failing });
        None
    }

    /// Puts payloads in doubt before all others, in their order.
    async fn keep_those_in_doubt(&mut self) {
        while let Some(payload) = self.in_doubt.pop_back() {
            self.keep(InHand::in_memory(payload)).await;
        }
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

    /// The next payload: a suspect that is to be tried again, or the oldest one; [`None`] at the end.
    async fn next(&mut self) -> Option<InHand> {
        loop {
            // Read before the queue, so that a batch pushed before the end is not missed.
            let is_closed = self.queue.is_closed();
            if self.queue.is_stopped() {
                return None;
            }
            let is_asked = !is_closed && self.in_doubt.is_empty();
            if let Some(due) = is_asked.then(|| self.suspects.take_due()).flatten() {
                return Some(InHand::suspect(due));
            }
            if let Some(payload) = self.unspooled.pop_front() {
                return Some(InHand::in_memory(payload));
            }
            if let Some(payload) = self.front_of_spool().await {
                return Some(InHand {
                    is_in_spool: true,
                    ..InHand::in_memory(payload)
                });
            }
            if self.queue.is_stopped() {
                return None;
            }
            if let Some(batch) = self.queue.take() {
                if let Some(payload) = self.pack(batch).await {
                    return Some(InHand::in_memory(payload));
                }
            } else if !self.in_doubt.is_empty() {
                // There is no other one any more.
                self.keep_those_in_doubt().await;
            } else if is_closed {
                // Once more each.
                return self.suspects.take_oldest().map(InHand::suspect);
            } else {
                select! {
                    () = self.queue.arrived() => {}
                    () = self.suspects.due() => {}
                }
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
            // The time of the first one in doubt runs.
            Decision::RetryWithLimit if !self.in_doubt.is_empty() => None,
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
            self.unspooled.push_front(in_hand.payload);
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
                self.unspooled.push_front(in_hand.payload);
            }
            Err(_) => self.unspooled.push_front(in_hand.payload),
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
