//! How much processor time the worker threads take in the long run.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Processor time that may be taken at once, after a long pause; urgent jobs may take as much again in
/// advance.
const BURST: Duration = Duration::from_secs(2);

/// Longest pause before a job.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// For how long to pause before the next job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pauses {
    /// Before one that can wait.
    pub(super) ordinary: Duration,
    /// Before one that a sample needs.
    pub(super) urgent: Duration,
}

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
    pub(super) fn spend(&self, spent: Duration, now: Instant) -> Pauses {
        let mut account = self.account();
        let Some(account) = &mut *account else {
            return Pauses::default();
        };
        let burst = BURST.as_secs_f64();
        let earned = now.duration_since(account.at).as_secs_f64() * account.share;
        account.at = now;
        account.left = (account.left + earned).min(burst) - spent.as_secs_f64();
        let until_there_are = |left: f64| {
            Duration::try_from_secs_f64((left - account.left) / account.share)
                .unwrap_or_default()
                .min(MAX_PAUSE)
        };
        Pauses {
            ordinary: until_there_are(0.0),
            urgent: until_there_are(-burst),
        }
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
    use super::{BURST, MAX_PAUSE, Pace, Pauses};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_spent_beyond_a_burst_is_earned_first() {
        let pace = Pace::default();
        let now = Instant::now();
        assert_eq!(pace.spend(BURST * 100, now), Pauses::default(), "no limit");

        pace.limit(0.05);
        let now = Instant::now();
        assert_eq!(pace.spend(BURST / 2, now), Pauses::default());
        let pauses = pace.spend(BURST / 2 + Duration::from_millis(100), now);
        assert_near(pauses.ordinary, Duration::from_secs(2));
        assert_eq!(pauses.urgent, Duration::ZERO);
        let later = now + pauses.ordinary * 2;
        assert_eq!(pace.spend(Duration::ZERO, later), Pauses::default());
        assert_eq!(pace.spend(BURST * 100, now).ordinary, MAX_PAUSE);
    }

    #[test]
    fn urgent_jobs_take_a_burst_in_advance() {
        let pace = Pace::default();
        pace.limit(0.05);
        let now = Instant::now();
        let pauses = pace.spend(BURST * 2 + Duration::from_millis(100), now);
        assert_eq!(pauses.ordinary, MAX_PAUSE);
        assert_near(pauses.urgent, Duration::from_secs(2));
    }

    fn assert_near(found: Duration, expected: Duration) {
        let difference = found.abs_diff(expected);
        assert!(difference < Duration::from_millis(10), "{found:?}");
    }
}
