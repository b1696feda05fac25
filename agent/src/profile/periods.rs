//! How far samples are apart in time.

use std::{num::NonZeroU32, time::Duration};

use super::kind::Kind;

/// Time between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Of the clock of a CPU.
    pub clock: Duration,
    /// Of a thread, by passes over all of them.
    pub passes: Duration,
}

impl Periods {
    /// Of so many samples per second; `wait_rate` is that of passes, where it is another one.
    #[must_use]
    pub fn new(rate: u32, wait_rate: Option<NonZeroU32>) -> Self {
        let clock = Duration::from_secs(1) / rate.max(1);
        let passes = wait_rate.map_or(clock, |rate| Duration::from_secs(1) / rate.get());
        Self { clock, passes }
    }

    /// Of the samples of a kind.
    #[must_use]
    pub fn of(&self, kind: &Kind) -> Duration {
        if kind.is_of_passes() {
            self.passes
        } else {
            self.clock
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CPU, kinds::wall};

    #[test]
    fn kinds_of_waiting_have_their_own_rate() {
        let one = Periods::new(100, None);
        assert_eq!(one.of(&CPU), one.of(&wall::KIND));
        let two = Periods::new(1000, NonZeroU32::new(20));
        assert_eq!(two.of(&CPU), Duration::from_millis(1));
        assert_eq!(two.of(&wall::KIND), Duration::from_millis(50));
    }
}
