//! The task of one exporter: takes reports from its queue, and delivers them in their order.
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
//! Invariants: what was reported first is delivered first; a report is in the queue, in hand or in
//! the spool until it is counted as delivered or dropped. A parcel may be delivered twice, when the
//! answer to the first time got lost or the agent was killed before it had removed it.

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
    counts::{Counts, Drop},
    destination::{Destination, Receipt},
    failure::{Failure, Next},
    queue::Shared,
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
    shared: Arc<Shared>,
    spool: Option<Arc<Mutex<Spool>>>,
    retry: Retry,
    /// The oldest parcel, when it came from memory and has to stay there.
    kept: Option<Payload>,
}

/// A parcel whose turn it is.
struct Held {
    parcel: Payload,
    is_in_spool: bool,
}

/// Since when the oldest parcel is answered with failures that may be its own fault.
struct Trouble {
    parcel: String,
    since: Instant,
}

/// What the spool has in it.
#[derive(Clone, Copy)]
struct Fill {
    parcels: u64,
    bytes: u64,
}

impl<D: Destination> Worker<D> {
    pub(super) fn new(
        name: String,
        destination: D,
        shared: Arc<Shared>,
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
            match self.attempt(&held.parcel).await {
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
                    if let Some(reason) = self.judge(&failure, &held.parcel, &mut trouble) {
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
        self.spill(Shared::take).await;
        self.shared.give_up();
    }

    /// Tells what is wrong, and what becomes of profiles.
    fn tell(&self, failure: &Failure) {
        let exporter = &self.name;
        match failure.next() {
            Next::Drop(_) => warn!(exporter, "a profile is given up: {failure}"),
            Next::Retry | Next::RetryWithLimit => {
                warn!(exporter, "profiles wait and are tried again: {failure}");
            }
        }
    }

    /// The oldest parcel; none at the end.
    async fn next(&mut self) -> Option<Held> {
        loop {
            // Asked first: a report that came before the end is seen below.
            let is_closed = self.shared.is_closed();
            if self.shared.is_stopped() {
                return None;
            }
            if let Some(parcel) = self.kept.take() {
                let is_in_spool = false;
                return Some(Held {
                    parcel,
                    is_in_spool,
                });
            }
            if let Some(parcel) = self.front_of_spool().await {
                let is_in_spool = true;
                return Some(Held {
                    parcel,
                    is_in_spool,
                });
            }
            if self.shared.is_stopped() {
                return None;
            }
            if let Some(report) = self.shared.take() {
                if let Some(parcel) = self.pack(report).await {
                    let is_in_spool = false;
                    return Some(Held {
                        parcel,
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

    /// Tries to deliver a parcel; gives nothing when it was stopped.
    async fn attempt(&self, parcel: &Payload) -> Option<Result<Receipt, Failure>> {
        self.shared.count(|counts| counts.attempts += 1);
        let mut attempt = pin!(self.destination.send(parcel));
        loop {
            select! {
                biased;
                result = &mut attempt => return Some(result),
                () = self.shared.stopped() => return None,
                () = self.shared.arrived(), if self.spool.is_some() => {
                    self.spill(Shared::take_if_crowded).await;
                }
            }
        }
    }

    /// Why a parcel that failed is given up; none if it is tried again.
    fn judge(
        &self,
        failure: &Failure,
        parcel: &Payload,
        trouble: &mut Option<Trouble>,
    ) -> Option<Drop> {
        match failure.next() {
            Next::Drop(reason) => Some(reason),
            Next::Retry => None,
            Next::RetryWithLimit => {
                let since = match trouble {
                    Some(known) if known.parcel == parcel.name => known.since,
                    _ => {
                        let since = Instant::now();
                        *trouble = Some(Trouble {
                            parcel: parcel.name.clone(),
                            since,
                        });
                        since
                    }
                };
                (since.elapsed() >= self.retry.max_elapsed).then_some(Drop::GivenUp)
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
            self.spill(Shared::take).await;
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

    /// A parcel was not delivered: it waits in front of all others, on disk if that can be.
    async fn keep(&mut self, held: Held) {
        let Some(spool) = &self.spool else {
            self.kept = Some(held.parcel);
            return;
        };
        if held.is_in_spool {
            lock(spool).release_front();
            return;
        }
        let parcel = held.parcel.clone();
        match self
            .with_spool(move |spool| spool.push_front(&parcel))
            .await
        {
            Ok((fill, Ok(dropped))) => self.shared.settle(|counts| fill.count(counts, dropped)),
            Ok((fill, Err((dropped, _)))) => {
                self.shared.count(|counts| {
                    counts.spool_failures += 1;
                    fill.count(counts, dropped);
                });
                self.kept = Some(held.parcel);
            }
            Err(_) => self.kept = Some(held.parcel),
        }
    }

    /// A parcel is delivered or dropped.
    async fn settle(&self, held: Held, settle: impl FnOnce(&mut Counts, u64)) {
        let bytes = held.parcel.body.len() as u64;
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

    /// Moves reports that `take` gives from memory to the spool, if there is one.
    async fn spill(&self, take: impl Fn(&Shared) -> Option<ProfileBatch>) {
        if self.spool.is_none() {
            return;
        }
        while let Some(report) = take(&self.shared) {
            let Some(parcel) = self.pack(report.clone()).await else {
                continue;
            };
            match self.with_spool(move |spool| spool.push_back(&parcel)).await {
                Ok((fill, Ok(dropped))) => self.shared.settle(|counts| fill.count(counts, dropped)),
                Ok((fill, Err((dropped, _)))) => {
                    self.shared.count(|counts| {
                        counts.spool_failures += 1;
                        fill.count(counts, dropped);
                    });
                    self.shared.give_back(report);
                    return;
                }
                Err(_) => {
                    self.shared.give_back(report);
                    return;
                }
            }
        }
    }

    /// Makes a parcel of a report in hand; one that cannot be one is dropped.
    async fn pack(&self, report: ProfileBatch) -> Option<Payload> {
        let destination = Arc::clone(&self.destination);
        // It takes milliseconds, which the thread that samples are read on has not.
        let packed = spawn_blocking(move || destination.pack(&report)).await;
        let parcel = packed.ok().and_then(Result::ok);
        if parcel.is_none() {
            self.shared
                .settle(|counts| counts.dropped.add(Drop::Unencodable, 1));
        }
        parcel
    }

    /// The oldest parcel in the spool, which is held there.
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
                Front::Payload(parcel) => return Some(parcel),
                Front::Torn => self.shared.count(|counts| {
                    fill.count(counts, 0);
                    counts.dropped.add(Drop::SpoolTorn, 1);
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
    ) -> io::Result<(Fill, T)> {
        let Some(spool) = self.spool.clone() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let done = spawn_blocking(move || {
            let mut spool = lock(&spool);
            let result = work(&mut spool);
            (Fill::of(&spool), result)
        });
        done.await.map_err(io::Error::other)
    }
}

impl Fill {
    fn of(spool: &Spool) -> Self {
        Self {
            parcels: spool.len() as u64,
            bytes: spool.bytes(),
        }
    }

    /// Counts what the spool has, and what had to go.
    fn count(self, counts: &mut Counts, dropped: u64) {
        counts.waiting.spool = self.parcels;
        counts.waiting.spool_bytes = self.bytes;
        counts.dropped.add(Drop::SpoolFull, dropped);
    }
}

fn lock(spool: &Mutex<Spool>) -> std::sync::MutexGuard<'_, Spool> {
    spool.lock().unwrap_or_else(PoisonError::into_inner)
}
