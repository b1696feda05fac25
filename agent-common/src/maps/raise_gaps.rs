//! How long it takes programs from one exception to the next.

/// Threads of a processor whose last run is kept, a power of two.
const THREADS: usize = 8;

/// Times between two runs of the probe of exceptions, one after the other, on the same thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunGaps {
    /// How many there were.
    pub count: u64,
    /// Their sum, in nanoseconds of the thread's CPU time.
    pub ns: u64,
}

/// A run of the probe of exceptions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeRun {
    /// Which thread it was in, a number that no other one has at that time; 0 where there was no run.
    pub thread: u64,
    /// How often that thread had been given another processor.
    pub migrations: u64,
    /// How often the probe had been detached by then.
    pub detached: u64,
    /// CPU time of the thread when it began, in nanoseconds, and a number that remains the same.
    pub run_time_ns: u64,
    /// Whether exceptions were recorded, 0 or 1.
    pub is_recorded: u64,
}

/// The runs of the probe on a processor: a value of the map `RAISE_GAPS`.
///
/// In a gap that counts, the thread may have lost the processor and got it back, but had no other one, and the probe has
/// been attached: no run is missing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaiseGaps {
    /// The last runs, each of another thread.
    pub last: [ProbeRun; THREADS],
    /// Gaps between runs that did not record, and between runs that did.
    pub gaps: [RunGaps; 2],
}

impl RaiseGaps {
    /// Takes a run into account.
    #[inline(always)]
    pub fn add(&mut self, run: ProbeRun) {
        let last = core::mem::replace(&mut self.last[place(run.thread)], run);
        let is_whole = last.thread == run.thread
            && last.migrations == run.migrations
            && last.detached == run.detached;
        if is_whole && last.is_recorded == run.is_recorded {
            let gaps = if run.is_recorded == 0 {
                &mut self.gaps[0]
            } else {
                &mut self.gaps[1]
            };
            gaps.count = gaps.count.wrapping_add(1);
            let ns = run.run_time_ns.wrapping_sub(last.run_time_ns);
            gaps.ns = gaps.ns.wrapping_add(ns);
        }
    }
}

/// Where the last run of a thread is kept: threads are addresses of structures of some kilobytes.
#[inline(always)]
fn place(thread: u64) -> usize {
    /// 2^64, divided by the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (thread.wrapping_mul(SPREAD) >> 32) as usize % THREADS
}

#[cfg(feature = "user")]
impl RunGaps {
    /// What has come since another count.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            ns: self.ns.saturating_sub(before.ns),
        }
    }

    /// This and another count.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            ns: self.ns.saturating_add(other.ns),
        }
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for RaiseGaps {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads whose last runs are kept in different places.
    const FIRST: u64 = 0xffff_8881_0000_0000;
    const SECOND: u64 = FIRST + 0x2640;

    #[test]
    fn only_gaps_count_in_which_no_run_is_missing_and_nothing_has_changed() {
        let mut gaps = RaiseGaps::default();
        for (thread, migrations, detached, run_time_ns, is_recorded) in [
            (FIRST, 5, 0, 100, 0),
            (FIRST, 5, 0, 130, 0),
            // It had another processor meanwhile.
            (FIRST, 7, 0, 200, 0),
            // Another thread, which has this processor for a while.
            (SECOND, 6, 0, 50, 0),
            (FIRST, 7, 0, 220, 0),
            (SECOND, 6, 0, 57, 0),
            // Recorded from now on.
            (FIRST, 7, 0, 223, 1),
            (FIRST, 7, 0, 323, 1),
            (FIRST, 7, 0, 423, 1),
            (FIRST, 7, 0, 430, 0),
            (FIRST, 7, 0, 437, 0),
            // It may have raised exceptions meanwhile of which the probe knows nothing.
            (FIRST, 7, 1, 1_000_437, 0),
        ] {
            gaps.add(ProbeRun {
                thread,
                migrations,
                detached,
                run_time_ns,
                is_recorded,
            });
        }
        let [idle, recorded] = gaps.gaps;
        assert_eq!((idle.count, idle.ns), (4, 30 + 20 + 7 + 7));
        assert_eq!((recorded.count, recorded.ns), (2, 200));
    }

    #[test]
    fn a_thread_at_the_place_of_another_one_takes_it() {
        assert_ne!(place(FIRST), place(SECOND));
        let run = |thread, run_time_ns| ProbeRun {
            thread,
            run_time_ns,
            ..ProbeRun::default()
        };
        let third = (SECOND..)
            .step_by(0x2640)
            .find(|&it| it != FIRST && place(it) == place(FIRST));
        let mut gaps = RaiseGaps::default();
        for run in [
            run(FIRST, 10),
            run(third.unwrap(), 20),
            run(FIRST, 30),
            run(FIRST, 35),
        ] {
            gaps.add(run);
        }
        assert_eq!((gaps.gaps[0].count, gaps.gaps[0].ns), (1, 5));
    }
}
