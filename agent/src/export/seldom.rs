//! Which of many equal failures are logged: the first one, and later ones after longer and longer pauses.

use std::time::Duration;

use tokio::time::Instant;

/// Least time between the first two lines, which doubles, and the longest.
pub(super) const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Failures of one kind.
#[derive(Debug)]
pub(super) struct Seldom {
    /// When the last one was logged.
    logged: Option<Instant>,
    /// Time in which no other one is.
    pause: Duration,
    /// Failures since that were not.
    others: u64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self {
            logged: None,
            pause: PAUSE,
            others: 0,
        }
    }
}

impl Seldom {
    /// How many failures were not logged before this one; [`None`] if it is not to be either.
    pub(super) fn others(&mut self) -> Option<u64> {
        let now = Instant::now();
        if let Some(logged) = self.logged {
            if now - logged < self.pause {
                self.others += 1;
                return None;
            }
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.others))
    }

    /// What it was a failure of works again: the next one is another one.
    pub(super) fn is_over(&mut self) {
        self.pause = PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_an_hour() {
        let mut failures = Seldom::default();
        let mut lines = 0;
        // A day with one in each second.
        for _ in 0..24 * 60 * 60 {
            lines += u64::from(failures.others().is_some());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // After 0, 1, 3, 7, 15, 31 and 63 minutes, then each hour.
        assert_eq!(lines, 7 + 22);
    }
}
