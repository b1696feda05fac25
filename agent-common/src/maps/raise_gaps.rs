//! How long it takes programs from one exception to the next.

/// Threads of a processor whose last run is kept, a power of two.
const THREADS: usize = 64;

/// The longest CPU time of a gap that counts, in nanoseconds.
const MOST_NS: u64 = 1_000_000_000;

/// The longest time in a gap in which the thread has no processor, in nanoseconds. In it interrupts, and what a hypervisor
/// gives to others, count as the thread's CPU time: the scheduler's clock leaves them out.
const MOST_OFF_NS: u64 = 50_000_000;

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
    /// When the thread began that it was in, which no other one has in common with it; 0 where there was no run.
    pub thread: u64,
    /// How often that thread had been given another processor.
    pub migrations: u64,
    /// How often the probe had been detached by then.
    pub detached: u64,
    /// When it began, in nanoseconds of the monotonic clock.
    pub began_ns: u64,
    /// CPU time of the thread until [`Self::run_time_end_ns`], in nanoseconds.
    pub run_time_ns: u64,
    /// Until when the scheduler had accounted for it, in nanoseconds of its clock.
    pub run_time_end_ns: u64,
    /// Whether exceptions were recorded, 0 or 1.
    pub is_recorded: u64,
}

/// The runs of the probe on a processor: a value of the map `RAISE_GAPS`.
///
/// In a gap that counts, the thread may have lost the processor and got it back, but had no other one, and the probe has
/// been attached: no run is missing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
        // Both by the scheduler's clock.
        let run_ns = run.run_time_ns.wrapping_sub(last.run_time_ns);
        let accounted_ns = run.run_time_end_ns.wrapping_sub(last.run_time_end_ns);
        let off_ns = accounted_ns.wrapping_sub(run_ns);
        let ns = run
            .began_ns
            .wrapping_sub(last.began_ns)
            .wrapping_sub(off_ns);
        // Where another thread took the processor in a run of the probe, they may be anything.
        let is_plausible = off_ns <= MOST_OFF_NS && ns <= MOST_NS;
        if is_whole && is_plausible && last.is_recorded == run.is_recorded {
            let gaps = if run.is_recorded == 0 {
                &mut self.gaps[0]
            } else {
                &mut self.gaps[1]
            };
            gaps.count = gaps.count.wrapping_add(1);
            gaps.ns = gaps.ns.wrapping_add(ns);
        }
    }
}

/// Where the last run of a thread is kept.
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
            count: self.count.wrapping_sub(before.count),
            ns: self.ns.wrapping_sub(before.ns),
        }
    }

    /// This and another count.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.wrapping_add(other.count),
            ns: self.ns.wrapping_add(other.ns),
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
    const FIRST: u64 = 7_000_000_001;
    const SECOND: u64 = 7_000_004_321;

    /// A run of a thread that has had its processor ever since, by clocks that differ by a second.
    fn run(thread: u64, began_ns: u64) -> ProbeRun {
        ProbeRun {
            thread,
            migrations: 5,
            detached: 0,
            began_ns,
            run_time_ns: 0,
            run_time_end_ns: 1_000_000_000,
            is_recorded: 0,
        }
    }

    /// The gaps between runs that did not record, and between those that did.
    fn gaps_of(runs: &[ProbeRun]) -> [(u64, u64); 2] {
        let mut gaps = RaiseGaps {
            last: [ProbeRun::default(); THREADS],
            gaps: [RunGaps::default(); 2],
        };
        for &run in runs {
            gaps.add(run);
        }
        gaps.gaps.map(|it| (it.count, it.ns))
    }

    #[test]
    fn only_gaps_count_in_which_no_run_is_missing_and_nothing_has_changed() {
        let migrated = |began_ns| ProbeRun {
            migrations: 6,
            ..run(FIRST, began_ns)
        };
        let recorded = |began_ns| ProbeRun {
            is_recorded: 1,
            ..migrated(began_ns)
        };
        let runs = [
            run(FIRST, 100),
            run(FIRST, 130),
            // It has another processor now.
            migrated(200),
            // Another thread, which has this processor for a while.
            run(SECOND, 210),
            migrated(220),
            run(SECOND, 227),
            // Recorded from now on.
            migrated(230),
            recorded(233),
            recorded(333),
            recorded(433),
            migrated(440),
            migrated(447),
            // It may have raised exceptions meanwhile of which the probe knows nothing.
            ProbeRun {
                detached: 1,
                ..migrated(460)
            },
        ];
        assert_eq!(gaps_of(&runs), [(5, 30 + 20 + 17 + 10 + 7), (2, 200)]);
    }

    #[test]
    fn time_in_which_the_thread_has_no_processor_is_left_out() {
        // It has run for 400 ns, has lost the processor for 2,000, and has run for 30 since it got it back.
        let back = ProbeRun {
            run_time_ns: 300,
            run_time_end_ns: 1_000_002_300,
            ..run(FIRST, 2_530)
        };
        assert_eq!(gaps_of(&[run(FIRST, 100), back])[0], (1, 430));
        let late = ProbeRun {
            run_time_end_ns: back.run_time_end_ns + MOST_OFF_NS,
            began_ns: back.began_ns + MOST_OFF_NS,
            ..back
        };
        assert_eq!(gaps_of(&[run(FIRST, 100), late])[0], (0, 0));
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let earlier = ProbeRun {
            run_time_ns: 500,
            ..run(FIRST, 100)
        };
        let less = run(FIRST, 130);
        assert_eq!(gaps_of(&[earlier, less])[0], (0, 0));
        assert_eq!(gaps_of(&[run(FIRST, 130), run(FIRST, 100)])[0], (0, 0));
        let long = run(FIRST, 101 + MOST_NS);
        assert_eq!(gaps_of(&[run(FIRST, 100), long])[0], (0, 0));
    }

    #[test]
    fn a_thread_at_the_place_of_another_one_takes_it() {
        assert_ne!(place(FIRST), place(SECOND));
        let third = (SECOND..SECOND + 100_000)
            .find(|&it| place(it) == place(FIRST))
            .unwrap();
        let runs = [
            run(FIRST, 10),
            run(third, 20),
            run(FIRST, 30),
            run(FIRST, 35),
        ];
        assert_eq!(gaps_of(&runs)[0], (1, 5));
    }
}
