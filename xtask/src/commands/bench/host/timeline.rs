//! The CPU time of a process over time.

use std::time::{Duration, SystemTime};

/// Readings, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<(SystemTime, Duration)>);

impl Timeline {
    pub(super) fn add(&mut self, at: SystemTime, used: Duration) {
        self.0.push((at, used));
    }

    /// CPU time that was used between two moments. [`None`] when there are no readings around them.
    pub(super) fn used(&self, from: SystemTime, to: SystemTime) -> Option<Duration> {
        Some(self.at(to)?.saturating_sub(self.at(from)?))
    }

    /// CPU time until a moment: in proportion between two readings.
    fn at(&self, moment: SystemTime) -> Option<Duration> {
        let after = self.0.partition_point(|(at, _)| *at < moment);
        let (late, used_late) = *self.0.get(after)?;
        let (early, used_early) = match after.checked_sub(1) {
            Some(before) => self.0[before],
            None => return (late == moment).then_some(used_late),
        };
        let between = late.duration_since(early).ok()?;
        let passed = moment.duration_since(early).ok()?;
        let part = passed.as_secs_f64() / between.as_secs_f64();
        Some(used_early + used_late.saturating_sub(used_early).mul_f64(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_readings_time_is_used_evenly() {
        let start = SystemTime::UNIX_EPOCH;
        let second = Duration::from_secs(1);
        let mut timeline = Timeline::default();
        timeline.add(start, second);
        timeline.add(start + 2 * second, 2 * second);
        timeline.add(start + 4 * second, 6 * second);
        let used = |from, to| timeline.used(start + from * second, start + to * second);
        assert_eq!(used(0, 4), Some(5 * second));
        assert_eq!(used(1, 3), Some(Duration::from_millis(2500)));
        assert_eq!(used(0, 5), None);
        let before = start - second;
        assert_eq!(timeline.used(before, start), None);
    }
}
