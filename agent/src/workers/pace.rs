//! How much processor time the worker threads take in the long run.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Processor time that may be taken at once, after a long pause.
const BURST: Duration = Duration::from_secs(2);

/// Longest pause before a job.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Processor time that is earned as time passes and spent by jobs.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Option<Account>>);

#[derive(Debug)]
struct Account {
    /// Processor time earned per time.
    share: f64,
    /// What is left, in seconds; negative if more was spent than earned.
    left: f64,
    at: Instant,
}

impl Pace {
    /// Limits jobs to this share of one processor in the long run.
    pub(super) fn limit(&self, share: f64) {
        let mut account = self.account();
        let left = account
            .as_ref()
            .map_or(BURST.as_secs_f64(), |account| account.left);
        *account = Some(Account {
            share,
            left,
            at: Instant::now(),
        });
    }

    /// Spends processor time; returns for how long to pause before the next job.
    pub(super) fn spend(&self, spent: Duration, now: Instant) -> Duration {
        let mut account = self.account();
        let Some(account) = &mut *account else {
            return Duration::ZERO;
        };
        let earned = now.duration_since(account.at).as_secs_f64() * account.share;
        account.at = now;
        account.left = (account.left + earned).min(BURST.as_secs_f64()) - spent.as_secs_f64();
        let pause = -account.left / account.share;
        Duration::try_from_secs_f64(pause)
            .unwrap_or_default()
            .min(MAX_PAUSE)
    }

    fn account(&self) -> MutexGuard<'_, Option<Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Processor time that this thread has used.
pub fn thread_cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::{BURST, MAX_PAUSE, Pace};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_spent_beyond_a_burst_is_earned_first() {
        let pace = Pace::default();
        let now = Instant::now();
        assert_eq!(pace.spend(BURST * 100, now), Duration::ZERO, "no limit");

        pace.limit(0.05);
        let now = Instant::now();
        assert_eq!(pace.spend(BURST / 2, now), Duration::ZERO);
        let pause = pace.spend(BURST / 2 + Duration::from_millis(100), now);
        let expected = Duration::from_secs(2);
        assert!(
            pause.abs_diff(expected) < Duration::from_millis(10),
            "{pause:?}"
        );
        assert_eq!(pace.spend(Duration::ZERO, now + pause * 2), Duration::ZERO);
        assert_eq!(pace.spend(BURST * 100, now), MAX_PAUSE);
    }
}
