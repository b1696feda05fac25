//! Exponential back-off with full jitter.
//!
//! The wait is random, between zero and a bound that doubles with each failure, so that many agents
//! that lost one collector at the same time do not return at the same time.

use std::time::Duration;

/// Longest wait that a server can request: it must not silence an agent for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Least bound of a wait, whatever is configured, so that there always is a pause.
const MIN_BOUND: Duration = Duration::from_millis(50);

/// Configuration of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Bound of the wait after the first failure.
    pub first: Duration,
    /// Greatest bound of a wait.
    pub longest: Duration,
    /// How long one payload is retried while the destination responds with errors, does not respond, or
    /// closes the connection: the payload itself may be the cause. An
    /// unreachable destination is retried without limit.
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

/// State of the back-off: consecutive failures.
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

    /// Resets after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Time to wait after a failure; not less than `retry_after`.
    pub(crate) fn wait(&mut self, retry_after: Option<Duration>) -> Duration {
        let jitter = self.bound().mul_f64(self.random.f64());
        self.failures = self.failures.saturating_add(1);
        match retry_after {
            None => jitter,
            // Agents with the same value must not return at the same time.
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
            .max(MIN_BOUND)
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
        assert!((0..200).any(|_| back_off.wait(None) > MIN_BOUND / 2));
        assert_eq!(back_off.bound(), MIN_BOUND);
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
    fn retry_after_is_respected_up_to_a_limit() {
        let mut back_off = BackOff::new(Retry::default());
        for (requested, least) in [(7, 7), (90, 90), (1_000_000, 3_600)] {
            let wait = back_off.wait(Some(Duration::from_secs(requested)));
            let least = Duration::from_secs(least);
            assert!((least..=least + Duration::from_secs(1)).contains(&wait));
        }
    }
}
