//! Keeps what sampling costs below a limit, by sampling more seldom.
//!
//! Only what grows with the rate counts: the runs of the sampling program where the kernel measures
//! them, and the thread that drains the ring buffer. Other work has a
//! [pace](crate::workers::Workers::limit_cpu) of its own. Where a lower rate has not helped, it is
//! not lowered further.

use std::time::{Duration, Instant};

/// Lowest rate, in hertz.
const LOWEST_RATE: u32 = 1;

/// Share of the former use that a lower rate must save.
const LEAST_SAVING: f64 = 0.1;

/// Share of the limit below which the rate is raised again.
const COMFORTABLE: f64 = 0.4;

/// Keeps what sampling costs below a limit.
pub(crate) struct CpuLimit {
    /// CPU time per time, as a part of one CPU.
    most: f64,
    /// CPU time used until the last check, and its time.
    before: (Duration, Instant),
    /// Use when the rate was last lowered, if it has not been raised since.
    lowered_at: Option<f64>,
}

impl CpuLimit {
    /// `used` is the CPU time that sampling has used so far.
    pub(crate) fn new(most: f64, used: Duration) -> Self {
        Self {
            most,
            before: (used, Instant::now()),
            lowered_at: None,
        }
    }

    /// The new period if it changes: doubled when the use since the last check is above the limit,
    /// halved when it is well below, down to that of `rate`.
    pub(crate) fn adjust(
        &mut self,
        cpu_time: Duration,
        rate: u32,
        period: Duration,
    ) -> Option<Adjustment> {
        let now = (cpu_time, Instant::now());
        let used = now.0.saturating_sub(self.before.0).as_secs_f64();
        let passed = now.1.duration_since(self.before.1).as_secs_f64();
        self.before = now;
        let used = used / passed;
        let adjusted = next_period(used, self.most, rate, period);
        if adjusted > period {
            let helped = |before: f64| used < before * (1.0 - LEAST_SAVING);
            if !self.lowered_at.is_none_or(helped) {
                return None;
            }
            self.lowered_at = Some(used);
        } else if adjusted < period {
            self.lowered_at = None;
        }
        (adjusted != period).then_some(Adjustment {
            period: adjusted,
            used,
        })
    }
}

/// Another sampling period, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adjustment {
    /// The new period.
    pub(crate) period: Duration,
    /// What sampling has used since the last check, as a part of one CPU.
    pub(crate) used: f64,
}

fn next_period(used: f64, most: f64, rate: u32, period: Duration) -> Duration {
    let shortest = Duration::from_secs(1) / rate;
    let longest = Duration::from_secs(1) / LOWEST_RATE;
    if used > most {
        (period * 2).min(longest).max(shortest)
    } else if used < most * COMFORTABLE {
        (period / 2).max(shortest)
    } else {
        period
    }
}

#[cfg(test)]
mod tests {
    use super::next_period;
    use std::time::Duration;

    #[test]
    fn the_rate_goes_down_when_too_much_is_used_and_up_again_when_little_is() {
        let millis = Duration::from_millis;
        assert_eq!(next_period(0.06, 0.05, 20, millis(50)), millis(100));
        assert_eq!(next_period(0.04, 0.05, 20, millis(100)), millis(100));
        assert_eq!(next_period(0.01, 0.05, 20, millis(100)), millis(50));
        assert_eq!(next_period(0.01, 0.05, 20, millis(50)), millis(50));
        assert_eq!(next_period(0.06, 0.05, 20, millis(800)), millis(1000));
        assert_eq!(next_period(0.06, 0.05, 20, millis(1000)), millis(1000));
    }
}
