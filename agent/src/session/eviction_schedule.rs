//! When the caches begin a generation, and when memory is released.
//!
//! Invariants: at the end of a window at most one generation begins; none begins while a window is open
//! that has seen one begin, since two drop stacks that its samples may refer to; what was released
//! because of the memory limit is not released again before it could have helped.

use std::time::{Duration, Instant};

/// Least time that entries of the caches stay. What is in use is sent again in each generation, which costs little; of a
/// host whose programs do ever different things, a minute of stacks is some megabytes.
const GENERATION: Duration = Duration::from_secs(3 * 60);

/// How long executables stay that no process maps any more.
pub const EXECUTABLES_STAY: Duration = Duration::from_secs(10 * 60);

/// Least time between two releases of memory, which costs much to fill again.
const RELEASE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Entries of the caches at which a generation ends early.
const MAX_CACHE_ENTRIES: usize = 200_000;

/// When the last ones were.
#[derive(Debug)]
pub struct EvictionSchedule {
    /// When the generation began.
    began: Instant,
    /// When memory was released, until so little is in use that it may be again.
    released: Option<Instant>,
}

/// What is in use at the end of a window.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Entries of the caches.
    pub entries: usize,
    /// Memory of the agent.
    pub bytes: u64,
    /// The limit of that.
    pub max_bytes: u64,
    /// Since when the oldest window is open that is still open.
    pub open_since: Option<Instant>,
}

/// What is to be done at the end of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// A generation begins.
    pub generation: bool,
    /// Symbols that can be read again are dropped.
    pub release: bool,
}

impl EvictionSchedule {
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            released: None,
        }
    }

    /// What is due at the end of a window.
    pub fn end_window(&mut self, now: Instant, in_use: &InUse) -> Due {
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_little = in_use.bytes < in_use.max_bytes / 8 * 7;
        if is_little
            || self
                .released
                .is_some_and(|it| since(it) >= RELEASE_INTERVAL)
        {
            self.released = None;
        }
        let release = in_use.bytes > in_use.max_bytes && self.released.is_none();
        if release {
            self.released = Some(now);
        }
        let is_over = since(self.began) >= GENERATION || in_use.entries >= MAX_CACHE_ENTRIES;
        let may_begin = in_use.open_since.is_none_or(|open| self.began <= open);
        let generation = may_begin && (is_over || release);
        if generation {
            self.began = now;
        }
        Due {
            generation,
            release,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, EvictionSchedule, GENERATION, InUse, MAX_CACHE_ENTRIES, RELEASE_INTERVAL};
    use std::time::{Duration, Instant};

    const WINDOW: Duration = Duration::from_secs(10);

    /// Windows in such a time.
    fn windows(time: Duration) -> u32 {
        u32::try_from(time.as_secs() / WINDOW.as_secs()).unwrap()
    }

    const LITTLE: InUse = InUse {
        entries: 100,
        bytes: 80,
        max_bytes: 800,
        open_since: None,
    };

    const MUCH: InUse = InUse {
        bytes: 801,
        ..LITTLE
    };

    /// What is due at the ends of so many windows in which as much is in use.
    fn due(
        schedule: &mut EvictionSchedule,
        now: &mut Instant,
        windows: u32,
        in_use: &InUse,
    ) -> [u32; 2] {
        let mut counts = [0; 2];
        for _ in 0..windows {
            *now += WINDOW;
            let due = schedule.end_window(*now, in_use);
            counts[0] += u32::from(due.generation);
            counts[1] += u32::from(due.release);
        }
        counts
    }

    #[test]
    fn a_generation_begins_when_its_time_is_over_or_the_caches_are_full() {
        let mut now = Instant::now();
        let mut schedule = EvictionSchedule::new(now);
        let most = windows(GENERATION);
        assert_eq!(due(&mut schedule, &mut now, most - 1, &LITTLE), [0, 0]);
        assert_eq!(due(&mut schedule, &mut now, 1, &LITTLE), [1, 0]);
        assert_eq!(due(&mut schedule, &mut now, 2 * most, &LITTLE), [2, 0]);
        let full = InUse {
            entries: MAX_CACHE_ENTRIES,
            ..LITTLE
        };
        assert_eq!(due(&mut schedule, &mut now, 1, &full), [1, 0]);
    }

    #[test]
    fn memory_is_released_once_while_it_does_not_help() {
        let mut now = Instant::now();
        let mut schedule = EvictionSchedule::new(now);
        let releases =
            |schedule: &mut _, now: &mut _, windows| due(schedule, now, windows, &MUCH)[1];
        let most = windows(RELEASE_INTERVAL);
        assert_eq!(releases(&mut schedule, &mut now, most), 1);
        assert_eq!(releases(&mut schedule, &mut now, 3 * most), 3);
        // Just below the limit is not enough.
        let nearly = InUse { bytes: 799, ..MUCH };
        assert_eq!(due(&mut schedule, &mut now, 1, &MUCH), [1, 1]);
        for _ in 0..8 {
            assert_eq!(due(&mut schedule, &mut now, 1, &nearly), [0, 0]);
            assert_eq!(due(&mut schedule, &mut now, 1, &MUCH), [0, 0]);
        }
        assert_eq!(due(&mut schedule, &mut now, 1, &LITTLE), [0, 0]);
        assert_eq!(due(&mut schedule, &mut now, 1, &MUCH), [1, 1]);
    }

    #[test]
    fn one_generation_begins_however_many_reasons_there_are() {
        let began = Instant::now();
        let mut schedule = EvictionSchedule::new(began);
        let in_use = InUse {
            entries: MAX_CACHE_ENTRIES,
            ..MUCH
        };
        let now = began + 2 * GENERATION;
        let both = Due {
            generation: true,
            release: true,
        };
        assert_eq!(schedule.end_window(now, &in_use), both);
        let idle = schedule.end_window(now + WINDOW, &LITTLE);
        assert_eq!(idle, Due::default());
    }

    #[test]
    fn an_open_window_sees_at_most_one_generation_begin() {
        let mut now = Instant::now();
        let mut schedule = EvictionSchedule::new(now);
        let full = InUse {
            entries: MAX_CACHE_ENTRIES,
            open_since: Some(now + WINDOW / 2),
            ..MUCH
        };
        assert_eq!(due(&mut schedule, &mut now, 1, &full), [1, 1]);
        assert_eq!(due(&mut schedule, &mut now, 30, &full), [0, 0]);
        let closed = InUse {
            open_since: None,
            ..full
        };
        assert_eq!(due(&mut schedule, &mut now, 1, &closed), [1, 0]);
    }
}
