//! The task of one exporter: takes batches from its queue, and delivers them in their order.
//!
//! ```text
//! queue in memory ──► in hand ──► destination
//!        │               │ failed        ▲
//!        ▼               ▼               │
//!      back ── spool ── front ───────────┘
//! ```
//!
//! While the destination takes what it gets, no disk is touched. After a failure everything goes to
//! the spool; while a request hangs, what the queue has no room for.
//!
//! Invariants: what was reported first is delivered first; a batch is in the queue, in hand or in
//! the spool until it is counted as delivered or dropped. A payload may be delivered twice, when the
//! response to the first time got lost or the agent was killed before it had removed it.

use std::{
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
    queue::SharedQueue,
    spool::{Front, Spool},
};
use crate::http_client::{BackOff, Retry};

/// When a spool that cannot be read at present is tried again.
const UNREADABLE: Duration = Duration::from_secs(1);

/// The task.
pub(super) struct Worker<D> {
    /// What the exporter is called.
    name: String,
    destination: Arc<D>,
    shared: Arc<SharedQueue>,
    spool: Option<Arc<Mutex<Spool>>>,
    retry: Retry,
    /// The oldest payload, when it came from memory and has to stay there.
    kept: Option<Payload>,
}

/// A payload whose turn it is.
struct InHand {
    payload: Payload,
    is_in_spool: bool,
}

/// Since when the oldest payload is answered with failures that may be its own fault.
struct FailingPayload {
    payload: String,
    since: Instant,
}

/// What the spool has in it.
#[derive(Clone, Copy)]
struct SpoolUsage {
    payloads: u64,
    bytes: u64,
}

impl<D: Destination> Worker<D> {
    pub(super) fn new(
        name: String,
        destination: D,
        shared: Arc<SharedQueue>,
        spool: Option<Spool>,
        retry: Retry,
    ) -> Self {
        Self {
            name,
            destination: Arc::new(destination),
            shared,
            spool: spool.map(|spool| Arc::new(Mutex::new(spool))),
            retry,
            kept: None,
        }
    }

    /// Delivers until the queue is closed and empty, or is stopped.
    pub(super) async fn run(mut self) {
        let mut back_off = BackOff::new(self.retry);
        let mut trouble = None;
        let mut told = None;
        while let Some(held) = self.next().await {
            match self.attempt(&held.payload).await {
                // Stopped in the middle.
                None => self.keep(held).await,
                Some(Ok(receipt)) => {
                    if told.take().is_some() {
                        info!(exporter = self.name, "profiles are delivered again");
                    }
                    back_off.reset();
                    trouble = None;
                    self.settle(held, |counts, bytes| {
                        counts.delivered += 1;
                        counts.delivered_bytes += bytes;
                        counts.partly_rejected += u64::from(receipt == Receipt::Partial);
                    })
                    .await;
                }
                Some(Err(failure)) => {
                    self.shared.failed(&failure);
                    // Only once, however often it fails in the same way.
                    if told.replace(failure.kind()) != Some(failure.kind()) {
                        self.tell(&failure);
                    }
                    if let Some(reason) = self.judge(&failure, &held.payload, &mut trouble) {
                        // The next one may have the same name, and has a max_elapsed of its own.
                        trouble = None;
                        self.settle(held, |counts, _| counts.dropped.add(reason, 1))
                            .await;
                        continue;
                    }
                    let was_closed = self.shared.is_closed();
                    self.keep(held).await;
                    if was_closed && self.spool.is_some() && self.kept.is_none() {
                        // The next run delivers it.
                        break;
                    }
                    let wait = back_off.wait(failure.retry_after());
                    self.pause(wait, was_closed).await;
                }
            }
        }
        self.spill(SharedQueue::take).await;
        self.shared.give_up();
    }

    /// Tells what is wrong, and what becomes of profiles.
    fn tell(&self, failure: &DeliveryError) {
        let exporter = &self.name;
        match failure.decision() {
            Decision::Drop(_) => warn!(exporter, "a profile is given up: {failure}"),
            Decision::Retry | Decision::RetryWithLimit => {
                warn!(exporter, "profiles wait and are tried again: {failure}");
            }
        }
    }

    /// The oldest payload; none at the end.
    async fn next(&mut self) -> Option<InHand> {
        loop {
            // Asked first: a batch that came before the end is seen below.
            let is_closed = self.shared.is_closed();
            if self.shared.is_stopped() {
                return None;
            }
            if let Some(payload) = self.kept.take() {
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
            if self.shared.is_stopped() {
                return None;
            }
            if let Some(batch) = self.shared.take() {
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
                self.shared.arrived().await;
            }
        }
    }

    /// Tries to deliver a payload; gives nothing when it was stopped.
    async fn attempt(&self, payload: &Payload) -> Option<Result<Receipt, DeliveryError>> {
        self.shared.count(|counts| counts.attempts += 1);
        let mut attempt = pin!(self.destination.send(payload));
        loop {
            select! {
                biased;
                result = &mut attempt => return Some(result),
                () = self.shared.stopped() => return None,
                () = self.shared.arrived(), if self.spool.is_some() => {
                    self.spill(SharedQueue::take_if_crowded).await;
                }
            }
        }
    }

    /// Why a payload that failed is given up; none if it is tried again.
    fn judge(
        &self,
        failure: &DeliveryError,
        payload: &Payload,
        trouble: &mut Option<FailingPayload>,
    ) -> Option<DropReason> {
        match failure.decision() {
            Decision::Drop(reason) => Some(reason),
            Decision::Retry => None,
            Decision::RetryWithLimit => {
                let since = match trouble {
                    Some(known) if known.payload == payload.name => known.since,
                    _ => {
                        let since = Instant::now();
                        *trouble = Some(FailingPayload {
                            payload: payload.name.clone(),
                            since,
                        });
                        since
                    }
                };
                (since.elapsed() >= self.retry.max_elapsed).then_some(DropReason::GivenUp)
            }
        }
    }

    /// Waits before the next attempt, and meanwhile moves what comes to the spool.
    ///
    /// When the end begins it is tried once more at once, and then no longer waited than at first.
    async fn pause(&self, wait: Duration, was_closed: bool) {
        let wait = if was_closed {
            wait.min(self.retry.first)
        } else {
            wait
        };
        let mut end = pin!(sleep(wait));
        loop {
            self.spill(SharedQueue::take).await;
            select! {
                () = &mut end => return,
                () = self.shared.stopped() => return,
                () = self.shared.arrived() => {
                    if !was_closed && self.shared.is_closed() {
                        return;
                    }
                }
            }
        }
    }

    /// A payload was not delivered: it waits in front of all others, on disk if that can be.
    async fn keep(&mut self, held: InHand) {
        let Some(spool) = &self.spool else {
            self.kept = Some(held.payload);
            return;
        };
        if held.is_in_spool {
            lock(spool).release_front();
            return;
        }
        let payload = held.payload.clone();
        match self
            .with_spool(move |spool| spool.push_front(&payload))
            .await
        {
            Ok((fill, Ok(dropped))) => self.shared.settle(|counts| fill.count(counts, dropped)),
            Ok((fill, Err((dropped, _)))) => {
                self.shared.count(|counts| {
                    counts.spool_failures += 1;
                    fill.count(counts, dropped);
                });
                self.kept = Some(held.payload);
            }
            Err(_) => self.kept = Some(held.payload),
        }
    }

    /// A payload is delivered or dropped.
    async fn settle(&self, held: InHand, settle: impl FnOnce(&mut Counts, u64)) {
        let bytes = held.payload.body.len() as u64;
        if !held.is_in_spool {
            self.shared.settle(|counts| settle(counts, bytes));
            return;
        }
        let removed = self.with_spool(Spool::remove_front).await;
        self.shared.count(|counts| {
            settle(counts, bytes);
            if let Ok((fill, ())) = removed {
                fill.count(counts, 0);
            }
        });
    }

    /// Moves batches that `take` gives from memory to the spool, if there is one.
    async fn spill(&self, take: impl Fn(&SharedQueue) -> Option<ProfileBatch>) {
        if self.spool.is_none() {
            return;
        }
        while let Some(batch) = take(&self.shared) {
            let Some(payload) = self.pack(batch.clone()).await else {
                continue;
            };
            match self
                .with_spool(move |spool| spool.push_back(&payload))
                .await
            {
                Ok((fill, Ok(dropped))) => self.shared.settle(|counts| fill.count(counts, dropped)),
                Ok((fill, Err((dropped, _)))) => {
                    self.shared.count(|counts| {
                        counts.spool_failures += 1;
                        fill.count(counts, dropped);
                    });
                    self.shared.give_back(batch);
                    return;
                }
                Err(_) => {
                    self.shared.give_back(batch);
                    return;
                }
            }
        }
    }

    /// Makes a payload of a batch in hand; one that cannot be one is dropped.
    async fn pack(&self, batch: ProfileBatch) -> Option<Payload> {
        let destination = Arc::clone(&self.destination);
        // It takes milliseconds, which the thread that samples are read on has not.
        let packed = spawn_blocking(move || destination.pack(&batch)).await;
        let payload = packed.ok().and_then(Result::ok);
        if payload.is_none() {
            self.shared
                .settle(|counts| counts.dropped.add(DropReason::Unencodable, 1));
        }
        payload
    }

    /// The oldest payload in the spool, which is held there.
    async fn front_of_spool(&self) -> Option<Payload> {
        while !self.shared.is_stopped() {
            let spool = self.spool.as_ref()?;
            // The usual case, and no reason to ask another thread.
            if lock(spool).len() == 0 {
                return None;
            }
            let (fill, front) = self.with_spool(Spool::hold_front).await.ok()?;
            match front {
                Front::Empty => return None,
                Front::Payload(payload) => return Some(payload),
                Front::Torn => self.shared.count(|counts| {
                    fill.count(counts, 0);
                    counts.dropped.add(DropReason::SpoolTorn, 1);
                }),
                Front::Unreadable => {
                    self.shared.count(|counts| counts.spool_failures += 1);
                    select! {
                        () = sleep(UNREADABLE) => {}
                        () = self.shared.stopped() => {}
                    }
                }
            }
        }
        None
    }

    /// Does something with the spool on a thread that may wait for a disk.
    async fn with_spool<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> io::Result<(SpoolUsage, T)> {
        let Some(spool) = self.spool.clone() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let done = spawn_blocking(move || {
            let mut spool = lock(&spool);
            let result = work(&mut spool);
            (SpoolUsage::of(&spool), result)
        });
        done.await.map_err(io::Error::other)
    }
}

impl SpoolUsage {
    fn of(spool: &Spool) -> Self {
        Self {
            payloads: spool.len() as u64,
            bytes: spool.bytes(),
        }
    }

    /// Counts what the spool has, and what had to go.
    fn count(self, counts: &mut Counts, dropped: u64) {
        counts.queued.spool = self.payloads;
        counts.queued.spool_bytes = self.bytes;
        counts.dropped.add(DropReason::SpoolFull, dropped);
    }
}

fn lock(spool: &Mutex<Spool>) -> std::sync::MutexGuard<'_, Spool> {
    spool.lock().unwrap_or_else(PoisonError::into_inner)
}
