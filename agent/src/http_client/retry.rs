//! How long to wait before the next attempt.
//!
//! The wait is drawn from between nothing and a bound that doubles with each failure ("full
//! jitter"), so that many agents that lost one collector at once do not come back at once.

use std::time::Duration;

/// Longest wait that a destination can ask for: it must not silence an agent for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Least bound of a wait, whatever is configured: nobody is asked without a pause.
const SHORTEST: Duration = Duration::from_millis(50);

/// When failed attempts are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Bound of the wait after the first failure.
    pub first: Duration,
    /// Bound that the bounds of later waits do not pass.
    pub longest: Duration,
    /// For how long one report is tried while the destination answers with errors or not at all, or
    /// cuts the connection, which may be for what is in the report, and all others wait. A
    /// destination that is away is waited for without end.
    pub max_elapsed: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            max_elapsed: Duration::from_secs(15 * 60),
        }
    }
}

/// Failures in a row.
#[derive(Debug)]
pub(crate) struct BackOff {
    retry: Retry,
    failures: u32,
    random: fastrand::Rng,
}

impl BackOff {
    pub(crate) fn new(retry: Retry) -> Self {
        Self {
            retry,
            failures: 0,
            random: fastrand::Rng::new(),
        }
    }

    /// An attempt went well.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// An attempt failed: how long to wait, and never less than the destination asks for.
    pub(crate) fn wait(&mut self, retry_after: Option<Duration>) -> Duration {
        let jitter = self.bound().mul_f64(self.random.f64());
        self.failures = self.failures.saturating_add(1);
        match retry_after {
            None => jitter,
            // All that were told the same time would come back at the same time.
            Some(after) => after
                .min(MAX_RETRY_AFTER)
                .saturating_add(jitter.min(self.retry.first)),
        }
    }

    fn bound(&self) -> Duration {
        let doubled = 2_u32.checked_pow(self.failures);
        doubled
            .and_then(|factor| self.retry.first.checked_mul(factor))
            .map_or(self.retry.longest, |bound| bound.min(self.retry.longest))
            .max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_longest() {
        let mut back_off = BackOff::new(Retry::default());
        let bounds: Vec<_> = (0..9)
            .map(|_| {
                let bound = back_off.bound();
                assert!(back_off.wait(None) <= bound);
                bound.as_secs()
            })
            .collect();
        assert_eq!(bounds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        back_off.failures = u32::MAX;
        back_off.wait(None);
        assert_eq!(back_off.bound().as_secs(), 60);
        back_off.reset();
        assert_eq!(back_off.bound().as_secs(), 1);
    }

    #[test]
    fn there_is_always_a_pause() {
        let mut back_off = BackOff::new(Retry {
            first: Duration::ZERO,
            longest: Duration::ZERO,
            max_elapsed: Duration::ZERO,
        });
        assert!((0..200).any(|_| back_off.wait(None) > SHORTEST / 2));
        assert_eq!(back_off.bound(), SHORTEST);
    }

    #[test]
    fn waits_are_spread() {
        let mut back_off = BackOff::new(Retry::default());
        back_off.failures = 10;
        let waits: Vec<_> = (0..200).map(|_| back_off.wait(None)).collect();
        let below = |seconds| waits.iter().filter(|wait| wait.as_secs() < seconds).count();
        assert!((50..150).contains(&below(30)), "{}", below(30));
    }

    #[test]
    fn a_destination_is_obeyed_within_reason() {
        let mut back_off = BackOff::new(Retry::default());
        for (asked, least) in [(7, 7), (90, 90), (1_000_000, 3_600)] {
            let wait = back_off.wait(Some(Duration::from_secs(asked)));
            let least = Duration::from_secs(least);
            assert!((least..=least + Duration::from_secs(1)).contains(&wait));
        }
    }
}
