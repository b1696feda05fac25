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
//! While deliveries work, some of the next ones of the same window are sent at the same time: its
//! [companions](companions).
//!
//! Invariants: batches are delivered in the order in which they were pushed, but for suspects, and for companions, which
//! are of other series; a batch is in the queue, in hand, a companion, in doubt, a suspect or in the spool until it is
//! counted as delivered or dropped. A payload may be delivered twice if the first response was lost, or if the agent was
//! killed before it removed the payload from the spool. Those that are sent at the same time, those in doubt and suspects
//! are in memory alone: an agent that is killed loses them.

mod companions;
mod spooling;

use std::{collections::VecDeque, future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep},
};
use tracing::warn;

use super::{
    batch::Payload,
    counts::DropReason,
    destination::{Destination, Receipt},
    failure::{Decision, DeliveryError},
    failure_log::FailureLog,
    in_hand::{FailingPayload, InHand},
    queue::ExportQueue,
    shared_spool::SharedSpool,
    spool::Spool,
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
    /// Whether the last attempt has succeeded, and all those beside it.
    deliveries_work: bool,
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
            deliveries_work: false,
            has_removed: false,
        }
    }

    /// Delivers until the queue is closed and empty, or stopped.
    pub(super) async fn run(mut self) {
        let mut back_off = BackOff::new(self.retry);
        let mut failing = None;
        // Suspects that have failed since the queue was closed.
        let mut left = Vec::new();
        while let Some(mut in_hand) = self.next().await {
            let companions = self.send_companions(&mut in_hand).await;
            let result = self.attempt(&in_hand.payload).await;
            self.count_removed();
            let undelivered = self.wait_for(companions).await;
            self.deliveries_work = matches!(result, Some(Ok(_))) && !undelivered.any;
            match result {
                // Stopped while it was sent.
                None => self.keep(in_hand).await,
                Some(Ok(receipt)) => {
                    self.log.delivered();
                    self.queue.delivered();
                    back_off.reset();
                    let since = failing.take().map(|it: FailingPayload| it.since);
                    self.suspect_those_in_doubt(since);
                    self.count_delivered(in_hand, receipt).await;
                    if undelivered.needs_pause {
                        let wait = back_off.wait(undelivered.retry_after);
                        self.pause(wait, self.queue.is_closed()).await;
                    }
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
                        self.drop(in_hand, reason).await;
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
                    let after = failure.retry_after().max(undelivered.retry_after);
                    let wait = back_off.wait(after);
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
        has_room && self.has_more(in_hand)
    }

    /// Whether there is a payload behind this one.
    fn has_more(&self, in_hand: &InHand) -> bool {
        let in_spool = self.spool.as_ref().map_or(0, |spool| spool.lock().len());
        self.queue.has_waiting()
            || !self.unspooled.is_empty()
            || in_spool > usize::from(in_hand.is_in_spool)
    }

    /// Has the next payloads tried before this one.
    async fn doubt(&mut self, mut in_hand: InHand) {
        if self.take_out_of_spool(&mut in_hand).await {
            self.in_doubt.push_back(in_hand.payload);
        } else {
            self.keep(in_hand).await;
        }
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
            self.drop(in_hand, reason).await;
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
        self.unless_stopped(self.destination.send(payload)).await
    }

    /// Waits for requests, and moves batches to the spool meanwhile if there is little room in the queue; [`None`] if
    /// delivery is stopped before.
    async fn unless_stopped<T>(&self, requests: impl Future<Output = T>) -> Option<T> {
        let mut requests = pin!(requests);
        loop {
            select! {
                biased;
                result = &mut requests => return Some(result),
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
}
