//! Payloads that are sent at the same time as the one in hand, so that a distant destination does not take a round trip
//! for each.
//!
//! Invariants: there are some only while deliveries work; they are the next ones, of the same window, of which no two have
//! the same series; a companion that is not delivered waits behind the payload in hand, before all others, to be
//! tried by itself: only then is it decided whether it is the cause.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::Worker;
use crate::{
    export::{
        batch::Payload,
        destination::{Destination, Receipt},
        failure::{Decision, DeliveryError},
        in_hand::InHand,
        spool::Front,
    },
    http_client::HttpErrorKind,
    store::name,
};

type Outcome = Result<Receipt, DeliveryError>;

/// The payloads, in their order, and the requests by index; those end with this.
#[derive(Default)]
pub(super) struct Companions {
    payloads: Vec<Payload>,
    requests: JoinSet<(usize, Outcome)>,
}

/// Of those that were not delivered.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    /// Whether there are some.
    pub(super) any: bool,
    /// Whether that may be over after a while.
    pub(super) needs_pause: bool,
    /// The longest pause that the destination asks for.
    pub(super) retry_after: Option<Duration>,
}

impl<D: Destination> Worker<D> {
    /// Sends the next payloads beside the one in hand.
    pub(super) async fn send_companions(&mut self, in_hand: &mut InHand) -> Companions {
        let mut companions = Companions::default();
        let is_possible = self.deliveries_work
            && D::MAX_REQUESTS > 1
            && in_hand.suspect.is_none()
            && self.in_doubt.is_empty();
        if !is_possible || !self.has_more(in_hand) || !self.take_out_of_spool(in_hand).await {
            return companions;
        }
        while companions.payloads.len() + 1 < D::MAX_REQUESTS
            && let Some(payload) = self.next_like(&in_hand.payload).await
        {
            self.queue.count(|counts| counts.attempts += 1);
            let destination = Arc::clone(&self.destination);
            let (index, sent) = (companions.payloads.len(), payload.clone());
            companions.payloads.push(payload);
            companions
                .requests
                .spawn(async move { (index, destination.send(&sent).await) });
        }
        companions
    }

    /// The next payload, if it is of the same window.
    async fn next_like(&mut self, payload: &Payload) -> Option<Payload> {
        let window = name::moment(&payload.name)?;
        let is_of_window = |name: &str| name::moment(name) == Some(window);
        if let Some(next) = self.unspooled.front() {
            return is_of_window(&next.name).then(|| self.unspooled.pop_front())?;
        }
        if let Some(spool) = self.spool.as_ref().filter(|spool| spool.lock().len() > 0) {
            let Front::Payload(next) = self.hold_front(spool).await? else {
                return None;
            };
            if !is_of_window(&next.name) {
                spool.lock().release_front();
                return None;
            }
            let mut in_hand = InHand {
                is_in_spool: true,
                ..InHand::in_memory(next)
            };
            let is_taken = self.take_out_of_spool(&mut in_hand).await;
            return is_taken.then_some(in_hand.payload);
        }
        let batch = self.queue.take_if(|batch| is_of_window(&batch.name()))?;
        self.pack(batch).await
    }

    /// Counts what has become of the companions, and keeps those that were not delivered.
    pub(super) async fn wait_for(&mut self, companions: Companions) -> Undelivered {
        let Companions {
            payloads,
            mut requests,
        } = companions;
        let mut outcomes: Vec<_> = payloads.iter().map(|_| None).collect();
        while let Some(Some(done)) = self.unless_stopped(requests.join_next()).await {
            // One that panics is tried again.
            if let Ok((index, outcome)) = done {
                outcomes[index] = Some(outcome);
            }
        }
        // Those that are sent no more are sent again by the next run.
        drop(requests);
        let mut undelivered = Undelivered::default();
        // The oldest is kept last, before all others.
        for (payload, outcome) in payloads.into_iter().zip(outcomes).rev() {
            let in_hand = InHand::in_memory(payload);
            match outcome {
                None => self.keep(in_hand).await,
                Some(Ok(receipt)) => self.count_delivered(in_hand, receipt).await,
                Some(Err(failure)) => {
                    self.queue.failed(&failure);
                    self.log.failed(&failure, &in_hand.payload);
                    if let Decision::Drop(reason) = failure.decision() {
                        self.drop(in_hand, reason).await;
                    } else {
                        undelivered.add(&failure);
                        self.keep(in_hand).await;
                    }
                }
            }
        }
        undelivered
    }
}

impl Undelivered {
    fn add(&mut self, failure: &DeliveryError) {
        let after = failure.retry_after();
        self.any = true;
        self.needs_pause |= after.is_some() || failure.kind() != Some(HttpErrorKind::Forbidden);
        self.retry_after = self.retry_after.max(after);
    }
}
