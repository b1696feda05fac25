//! Payloads that fail while others are delivered: they themselves are the cause, and wait beside the others.
//!
//! Invariants: they are bounded in number and in bytes, beyond which the oldest one is given up; each is tried again
//! after pauses of its own.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::batch::Payload;
use crate::http_client::Retry;

/// Most payloads that wait beside the others, and most bytes of them.
pub(super) const MAX_PAYLOADS: usize = 64;
pub(super) const MAX_BYTES: usize = 8 << 20;

/// How long a payload has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    /// Time of its first failure.
    pub(super) since: Instant,
    /// How often it has failed since it waits beside the others.
    pub(super) count: u32,
}

#[derive(Debug)]
struct Suspect {
    payload: Payload,
    failing: Failing,
    due: Instant,
}

/// The payloads, the oldest first.
#[derive(Debug)]
pub(super) struct Suspects {
    all: VecDeque<Suspect>,
    retry: Retry,
}

impl Suspects {
    pub(super) fn new(retry: Retry) -> Self {
        Self {
            all: VecDeque::new(),
            retry,
        }
    }

    /// Adds a payload that has failed now. Returns those for which there is no more room.
    pub(super) fn add(&mut self, payload: Payload, failing: Failing) -> Vec<Payload> {
        let due = Instant::now() + self.pause(failing.count);
        self.all.push_back(Suspect {
            payload,
            failing,
            due,
        });
        let mut given_up = Vec::new();
        while self.is_too_much()
            && let Some(oldest) = self.all.pop_front()
        {
            given_up.push(oldest.payload);
        }
        given_up
    }

    fn is_too_much(&self) -> bool {
        let bytes: usize = self.all.iter().map(|it| it.payload.body.len()).sum();
        self.all.len() > MAX_PAYLOADS || bytes > MAX_BYTES
    }

    fn pause(&self, count: u32) -> Duration {
        let factor = 2_u32.saturating_pow(count.saturating_add(1));
        let pause = self.retry.first.saturating_mul(factor);
        pause.min(self.retry.longest)
    }

    /// One that is to be tried again.
    pub(super) fn take_due(&mut self) -> Option<(Payload, Failing)> {
        let now = Instant::now();
        let index = self.all.iter().position(|it| it.due <= now)?;
        let suspect = self.all.remove(index)?;
        Some((suspect.payload, suspect.failing))
    }

    /// Waits until one is to be tried again; for ever without any.
    pub(super) async fn due(&self) {
        match self.all.iter().map(|it| it.due).min() {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// The oldest one, whether it is to be tried again or not.
    pub(super) fn take_oldest(&mut self) -> Option<(Payload, Failing)> {
        let suspect = self.all.pop_front()?;
        Some((suspect.payload, suspect.failing))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn payload(name: &str, bytes: usize) -> Payload {
        Payload {
            name: name.to_owned(),
            body: Bytes::from(vec![0; bytes]),
        }
    }

    fn failing(count: u32) -> Failing {
        Failing {
            since: Instant::now(),
            count,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_tried_again_after_longer_and_longer_pauses() {
        let mut suspects = Suspects::new(Retry::default());
        suspects.add(payload("often", 1), failing(40));
        suspects.add(payload("once", 1), failing(0));
        assert!(suspects.take_due().is_none());
        let start = Instant::now();
        for (name, seconds) in [("once", 2), ("often", 60)] {
            suspects.due().await;
            assert_eq!(start.elapsed().as_secs(), seconds);
            assert_eq!(suspects.take_due().unwrap().0.name, name);
        }
        assert!(suspects.take_oldest().is_none());
    }

    #[tokio::test]
    async fn the_oldest_are_given_up() {
        let mut suspects = Suspects::new(Retry::default());
        for nth in 0..MAX_PAYLOADS {
            assert_eq!(suspects.add(payload(&nth.to_string(), 1), failing(0)), []);
        }
        let given_up = suspects.add(payload("one more", 1), failing(0));
        assert_eq!(given_up, [payload("0", 1)]);
        let given_up = suspects.add(payload("large", MAX_BYTES - 2), failing(0));
        assert_eq!(given_up.len(), MAX_PAYLOADS - 2);
        let last = (MAX_PAYLOADS - 1).to_string();
        for name in [&last, "one more", "large"] {
            assert_eq!(suspects.take_oldest().unwrap().0.name, name);
        }
    }
}
