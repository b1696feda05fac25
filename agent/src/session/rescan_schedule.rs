//! When the known processes are compared with those that run.

use std::time::{Duration, Instant};

/// Least time between two comparisons: what loses events may go on losing them.
const PAUSE: Duration = Duration::from_secs(10);

/// When processes were compared.
#[derive(Debug, Default)]
pub(super) struct RescanSchedule {
    /// Events that were lost before.
    lost: u64,
    last: Option<Instant>,
}

impl RescanSchedule {
    /// Whether a comparison is due when so many events were lost so far.
    pub(super) fn is_due(&mut self, lost: u64, now: Instant) -> bool {
        let is_early = self
            .last
            .is_some_and(|last| now.duration_since(last) < PAUSE);
        if lost == self.lost || is_early {
            return false;
        }
        self.lost = lost;
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, RescanSchedule};
    use std::time::Instant;

    #[test]
    fn a_loss_leads_to_one_comparison_and_not_to_one_right_after_another() {
        let now = Instant::now();
        let mut rescan = RescanSchedule::default();
        assert!(!rescan.is_due(0, now));
        assert!(rescan.is_due(3, now));
        assert!(!rescan.is_due(3, now + PAUSE));
        assert!(!rescan.is_due(4, now + PAUSE / 2));
        assert!(rescan.is_due(4, now + PAUSE));
    }
}
