//! How much work look-ups may do.
//!
//! CPU time is measured, not work estimated: what an address costs depends on the file by a factor of
//! a million. It is the time of the calling thread, so that a slow disk or a busy machine does not
//! leave frames without lines.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use crate::workers::thread_cpu_time;

/// The work that one run of look-ups may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// All that there is to do.
    Unlimited,
    /// CPU time, after which only names are looked up.
    Cpu(Duration),
    /// Names.
    Names,
    /// A number of look-ups, after which only names are looked up.
    LookUps(u64),
}

/// An [`Allowance`] in use, on one thread.
#[derive(Debug)]
pub struct Budget {
    allowance: Allowance,
    start: Duration,
    look_ups: Cell<u64>,
}

impl Allowance {
    /// Starts to measure the calling thread.
    #[must_use]
    pub fn start(self) -> Budget {
        Budget {
            allowance: self,
            start: thread_cpu_time(),
            look_ups: Cell::new(0),
        }
    }
}

impl Budget {
    /// Counts a look-up if it may be done.
    pub(super) fn take_look_up(&self) -> bool {
        let may = match self.allowance {
            Allowance::Unlimited => true,
            Allowance::Cpu(most) => self.used() < most,
            Allowance::Names => false,
            Allowance::LookUps(most) => self.look_ups.get() < most,
        };
        self.look_ups.set(self.look_ups.get() + u64::from(may));
        may
    }

    /// CPU time since the start.
    #[must_use]
    pub fn used(&self) -> Duration {
        thread_cpu_time().saturating_sub(self.start)
    }
}

/// A share of a CPU that look-ups may use over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// CPU time that may be used at once: at the start, and after a time without look-ups.
    pub burst: Duration,
    /// CPU time that is added per second, up to the burst.
    pub per_second: Duration,
}

/// The shares of look-ups of more than names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShares {
    /// For the first look-up in a file, which decompresses and indexes its debugging information. It is
    /// apart, so that one large file does not delay look-ups in all others.
    pub opening: CpuShare,
    /// For all others.
    pub look_ups: CpuShare,
}

/// What is left of a [`CpuShare`]; it may be overdrawn, since a look-up that has begun is finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuAccount {
    share: CpuShare,
    /// In seconds.
    left: f64,
    at: Instant,
}

impl CpuAccount {
    pub(super) fn new(share: CpuShare, now: Instant) -> Self {
        Self {
            share,
            left: share.burst.as_secs_f64(),
            at: now,
        }
    }

    /// Adds what has been earned until `now`; returns what is more than the burst, in seconds.
    pub(super) fn earn(&mut self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.add(elapsed * self.share.per_second.as_secs_f64())
    }

    /// Adds some seconds; returns what is more than the burst.
    pub(super) fn add(&mut self, seconds: f64) -> f64 {
        let sum = self.left + seconds;
        self.left = sum.min(self.share.burst.as_secs_f64());
        sum - self.left
    }

    /// What may be used now.
    pub(super) fn left(&self) -> Duration {
        Duration::try_from_secs_f64(self.left).unwrap_or_default()
    }

    /// Whether something may be begun that takes about so long. What takes longer than a burst would wait for the last
    /// millisecond of it, which others use again and again: it needs three quarters.
    pub(super) fn affords(&self, expected: Duration) -> bool {
        self.left > 0.0 && self.left >= expected.min(self.share.burst * 3 / 4).as_secs_f64()
    }

    /// Subtracts what was used; the debt is at most the burst.
    pub(super) fn spend(&mut self, used: Duration) {
        let lowest = -self.share.burst.as_secs_f64();
        self.left = (self.left - used.as_secs_f64()).max(lowest);
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuAccount, CpuShare};
    use std::time::{Duration, Instant};

    #[test]
    fn an_account_is_overdrawn_and_filled_again() {
        let (now, milliseconds) = (Instant::now(), Duration::from_millis);
        let share = CpuShare {
            burst: milliseconds(100),
            per_second: milliseconds(10),
        };
        let mut account = CpuAccount::new(share, now);
        let left = |account: &mut CpuAccount, at| {
            account.earn(at);
            account.left()
        };
        assert_eq!(left(&mut account, now), milliseconds(100));
        account.spend(milliseconds(150));
        assert_eq!(left(&mut account, now), Duration::ZERO);
        let later = now + milliseconds(4000);
        assert_eq!(left(&mut account, later), Duration::ZERO);
        let some = left(&mut account, now + milliseconds(6000));
        assert!((9..=10).contains(&some.as_millis()), "{some:?}");
        // Not more than the burst, in either direction.
        account.spend(milliseconds(100_000));
        let some = left(&mut account, now + milliseconds(16_500));
        assert!((4..=5).contains(&some.as_millis()), "{some:?}");
        let surplus = account.earn(now + milliseconds(26_500));
        assert!((0.0..0.01).contains(&surplus), "{surplus}");
        let surplus = account.earn(now + milliseconds(36_500));
        assert!((0.0..0.11).contains(&surplus), "{surplus}");
        assert_eq!(account.left(), milliseconds(100));
    }

    #[test]
    fn what_takes_longer_than_a_burst_is_begun_when_little_of_it_was_used() {
        let now = Instant::now();
        let share = CpuShare {
            burst: Duration::from_secs(2),
            per_second: Duration::from_millis(1),
        };
        let mut account = CpuAccount::new(share, now);
        let long = Duration::from_secs(3);
        assert!(account.affords(long));
        account.spend(Duration::from_millis(400));
        assert!(account.affords(long));
        account.spend(Duration::from_millis(200));
        assert!(!account.affords(long));
        assert!(account.affords(Duration::from_secs(1)));
        account.earn(now + Duration::from_secs(101));
        assert!(account.affords(long));
        account.spend(long);
        assert!(!account.affords(Duration::ZERO));
    }
}
