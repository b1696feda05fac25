//! The longest times in which threads held the GIL or waited for it, as passes have seen them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most threads that are remembered.
const MAX_THREADS: usize = 16 << 10;

/// The longest times of a thread: in each pass of them it did so. It may have done something else between
/// two passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestTimes {
    /// Holding the GIL, in nanoseconds.
    pub held_ns: u64,
    /// Waiting for it, in nanoseconds.
    pub waited_ns: u64,
}

/// The longest times by process and thread. Clones are the same.
///
/// Invariant: of more than so many threads the rest is left out.
#[derive(Clone, Debug, Default)]
pub struct GilTimes(Arc<Mutex<HashMap<(u32, u32), Thread>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    longest: LongestTimes,
    present: LongestTimes,
}

impl GilTimes {
    /// Adds what a pass has seen of a thread in the elapsed time.
    pub fn add(&self, process: u32, thread: u32, elapsed_ns: u64, holds: bool, waits: bool) {
        let mut all = self.all();
        let key = (process, thread);
        if all.len() >= MAX_THREADS && !all.contains_key(&key) {
            return;
        }
        let Thread { longest, present } = all.entry(key).or_default();
        let grown = |present: u64, goes_on: bool| if goes_on { present + elapsed_ns } else { 0 };
        present.held_ns = grown(present.held_ns, holds);
        present.waited_ns = grown(present.waited_ns, waits);
        longest.held_ns = longest.held_ns.max(present.held_ns);
        longest.waited_ns = longest.waited_ns.max(present.waited_ns);
    }

    /// The longest times of a thread.
    #[must_use]
    pub fn of(&self, process: u32, thread: u32) -> LongestTimes {
        let thread = self.all().get(&(process, thread)).copied();
        thread.unwrap_or_default().longest
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(u32, u32), Thread>> {
        // It is consistent after every statement, so also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_is_that_without_a_break() {
        let times = GilTimes::default();
        for (holds, waits) in [
            (true, false),
            (true, false),
            (false, true),
            (true, false),
            (false, false),
            (false, true),
            (false, true),
            (false, true),
        ] {
            times.add(1, 2, 10, holds, waits);
        }
        let expected = LongestTimes {
            held_ns: 20,
            waited_ns: 30,
        };
        assert_eq!(times.of(1, 2), expected);
        assert_eq!(times.of(1, 3), LongestTimes::default());
        assert_eq!(times.clone().of(1, 2), expected);
    }

    #[test]
    fn so_many_threads_are_remembered() {
        let times = GilTimes::default();
        for thread in 0..2 * u32::try_from(MAX_THREADS).unwrap() {
            times.add(1, thread, 10, true, false);
        }
        assert_eq!(times.all().len(), MAX_THREADS);
    }
}
