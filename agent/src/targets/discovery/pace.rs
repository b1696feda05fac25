//! The pauses between examinations of one process.
//!
//! A program that imports packages maps dozens of libraries within a second, and samples in those that are not known yet
//! lack frames: it is examined again at once, as long as the time that this takes is on its account. A program that maps
//! code all the time uses that up, and is examined ever more seldom until it was quiet for a while.

use std::time::{Duration, Instant};

/// Pause after the first examination of a process.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause between two examinations.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Time without examinations after which the next pause is the first one again.
const QUIET: Duration = Duration::from_secs(1);

/// Pause while there is time on the account.
const QUICK_PAUSE: Duration = Duration::from_millis(4);

/// The same for each mapping of the process: mappings that were replaced keep their room in the BPF map for a second, and
/// those of a capture have room for sixteen thousand.
const QUICK_PAUSE_OF_MAPPING: Duration = Duration::from_micros(80);

/// Time of examinations on a full account: that of some fifty, of a program with a hundred libraries.
const BURST: Duration = Duration::from_millis(250);

/// The account is given one in so many parts of the time that passes.
const EARNED_PART: u32 = 50;

/// When a process was examined, and for how long.
#[derive(Debug)]
pub(super) struct Pace {
    /// Examinations in short succession, without those of a program that was being started.
    examinations: u32,
    began: Instant,
    /// When the last one has ended.
    ended: Instant,
    /// How long that took.
    took: Duration,
    /// Executable mappings that it has found.
    mappings: u32,
    /// Time that examinations may take before their pauses grow.
    left: Duration,
}

impl Pace {
    /// Of a process that is known since `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            examinations: 0,
            began: now,
            ended: now,
            took: Duration::ZERO,
            mappings: 0,
            left: BURST,
        }
    }

    /// The process runs another program.
    pub(super) fn reset(&mut self) {
        self.examinations = 0;
    }

    /// Notes that an examination begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// Notes that the examination has ended, which has found so many executable mappings; `counts` unless it was one of a
    /// program that was being started.
    pub(super) fn end(&mut self, now: Instant, mappings: usize, counts: bool) {
        let pause = now.duration_since(self.ended);
        if pause >= QUIET {
            self.examinations = 0;
        } else if counts {
            self.examinations += 1;
        }
        self.took = now.duration_since(self.began);
        self.mappings = u32::try_from(mappings).unwrap_or(u32::MAX);
        let earned = self.left + pause / EARNED_PART;
        self.left = earned.min(BURST).saturating_sub(self.took);
        self.ended = now;
    }

    /// When the process may be examined again because its mappings have changed.
    pub(super) fn due(&self) -> Instant {
        self.ended + self.pause()
    }

    fn pause(&self) -> Duration {
        let pause = pause_after(self.examinations);
        if self.left.is_zero() {
            pause
        } else {
            let of_mappings = QUICK_PAUSE_OF_MAPPING.saturating_mul(self.mappings);
            // It takes half of the time at most.
            pause.min(QUICK_PAUSE.max(of_mappings).max(self.took))
        }
    }
}

/// The pause after so many examinations in short succession.
pub(super) fn pause_after(examinations: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1 << examinations.min(16))
        .min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::{
        BURST, EARNED_PART, LONGEST_PAUSE, Pace, QUICK_PAUSE, QUICK_PAUSE_OF_MAPPING, QUIET,
    };
    use std::time::{Duration, Instant};

    const MAPPINGS: usize = 80;

    /// Examines as often as may be for a while; returns how often, and how long that took in all.
    fn examine(pace: &mut Pace, from: Instant, to: Instant, took: Duration) -> (u32, Duration) {
        let mut count = 0;
        let mut now = from;
        while now < to {
            pace.begin(now);
            pace.end(now + took, MAPPINGS, true);
            count += 1;
            now = pace.due();
        }
        (count, took * count)
    }

    #[test]
    fn a_program_that_loads_its_libraries_is_examined_again_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let took = Duration::from_millis(4);
        let (count, _) = examine(&mut pace, start, start + 2 * BURST, took);
        assert!(count >= 45, "{count}");
        let pause = QUICK_PAUSE_OF_MAPPING * 80;
        assert_eq!(pace.due(), pace.ended + pause);
        let mut slow = Pace::new(start);
        let took = 4 * QUICK_PAUSE;
        examine(&mut slow, start, start + BURST, took);
        assert_eq!(slow.due(), slow.ended + took);
        pace.end(pace.ended, 1000, true);
        assert_eq!(pace.due(), pace.ended + Duration::from_millis(80));
    }

    #[test]
    fn a_program_that_maps_code_all_the_time_is_examined_seldom() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let took = Duration::from_millis(20);
        let minute = Duration::from_secs(60);
        let (_, all) = examine(&mut pace, start, start + minute, took);
        let seldom = minute.as_secs_f64() / LONGEST_PAUSE.as_secs_f64() * took.as_secs_f64();
        let most = BURST + minute / EARNED_PART + Duration::from_secs_f64(seldom);
        assert!(all <= most, "{all:?}");
        assert_eq!(pace.due(), pace.ended + LONGEST_PAUSE);
        // After a while of quiet the pauses are short again.
        let later = pace.ended + QUIET;
        pace.begin(later);
        pace.end(later + took, MAPPINGS, true);
        assert!(pace.due() <= pace.ended + took);
    }
}
