//! Payloads of a worker between memory and the spool.

use std::sync::Arc;

use tokio::{select, task::spawn_blocking, time::sleep};
use tracing::warn;

use super::{SPOOL_RETRY, Worker};
use crate::export::{
    batch::{Payload, ProfileBatch},
    counts::{Counts, DropReason},
    destination::{Destination, Receipt},
    in_hand::InHand,
    queue::ExportQueue,
    shared_spool::SharedSpool,
    spool::{Front, Spool},
};

impl<D: Destination> Worker<D> {
    /// Puts a payload that was not delivered before all others, on disk if possible.
    pub(super) async fn keep(&mut self, in_hand: InHand) {
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
            Ok((usage, Err((dropped, error)))) => {
                spool.log_failure(&self.name, &error);
                self.queue.count(|counts| {
                    counts.spool_failures += 1;
                    usage.count(counts, dropped);
                });
                self.unspooled.push_front(in_hand.payload);
            }
            Err(_) => self.unspooled.push_front(in_hand.payload),
        }
    }

    /// Takes the payload in hand out of the spool, if it is there. Returns whether it is in memory alone now.
    pub(super) async fn take_out_of_spool(&self, in_hand: &mut InHand) -> bool {
        if let Some(spool) = self.spool.as_ref().filter(|_| in_hand.is_in_spool) {
            let Ok((usage, ())) = spool.run(Spool::remove_front).await else {
                return false;
            };
            self.queue.hold(|counts| usage.count(counts, 0));
            in_hand.is_in_spool = false;
        }
        true
    }

    /// Counts a payload as delivered.
    pub(super) async fn count_delivered(&self, in_hand: InHand, receipt: Receipt) {
        self.finish(in_hand, |counts, bytes| {
            counts.delivered += 1;
            counts.delivered_bytes += bytes;
            counts.partly_rejected += u64::from(receipt == Receipt::Partial);
        })
        .await;
    }

    /// Drops a payload.
    pub(super) async fn drop(&self, in_hand: InHand, reason: DropReason) {
        self.finish(in_hand, |counts, _| counts.dropped.add(reason, 1))
            .await;
    }

    /// Removes a payload that is delivered or dropped.
    pub(super) async fn finish(&self, in_hand: InHand, count: impl FnOnce(&mut Counts, u64)) {
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
    pub(super) async fn spill(&self, take: impl Fn(&ExportQueue) -> Option<ProfileBatch>) {
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
                Ok((usage, Err((dropped, error)))) => {
                    spool.log_failure(&self.name, &error);
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
    pub(super) async fn pack(&self, batch: ProfileBatch) -> Option<Payload> {
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
    pub(super) async fn front_of_spool(&self) -> Option<Payload> {
        while !self.queue.is_stopped() {
            let spool = self.spool.as_ref()?;
            // The usual case, without a switch to another thread.
            if spool.lock().len() == 0 {
                return None;
            }
            match self.hold_front(spool).await? {
                Front::Empty => return None,
                Front::Payload(payload) => return Some(payload),
                Front::Torn => {}
                Front::Unreadable => {
                    select! {
                        () = sleep(SPOOL_RETRY) => {}
                        () = self.queue.stopped() => {}
                    }
                }
            }
        }
        None
    }

    /// Reads the oldest payload in the spool, held there; counts it if it is damaged, and thus gone, or unreadable.
    pub(super) async fn hold_front(&self, spool: &SharedSpool) -> Option<Front> {
        let (usage, front) = spool.run(Spool::hold_front).await.ok()?;
        match front {
            Front::Empty | Front::Payload(_) => {}
            Front::Torn => {
                warn!(
                    exporter = self.name,
                    "a profile in the spool is damaged, and dropped"
                );
                self.queue.count(|counts| {
                    usage.count(counts, 0);
                    counts.dropped.add(DropReason::SpoolTorn, 1);
                });
            }
            Front::Unreadable => self.queue.count(|counts| counts.spool_failures += 1),
        }
        Some(front)
    }
}
