//! How long it takes programs from one exception to the next.

/// Times between two runs of the probe of exceptions, one after the other, on the same thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunGaps {
    /// How many there were.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub ns: u64,
}

/// A run of the probe of exceptions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeRun {
    /// Which thread it was in: any number that only this one has; 0 where there was no run.
    pub thread: u64,
    /// How often that thread has lost its processor so far.
    pub switches: u64,
    /// When it began, in nanoseconds of the monotonic clock.
    pub began_ns: u64,
    /// Whether exceptions were recorded, 0 or 1.
    pub is_recorded: u64,
}

/// The runs of the probe on a processor: a value of the map `RAISE_GAPS`.
///
/// In a gap that counts, the thread has had the processor all of the time: it is CPU time, which the kernel does not
/// tell others of to less than one of its ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaiseGaps {
    /// The last run.
    pub last: ProbeRun,
    /// Those after which exceptions were not recorded, and those after which they were.
    pub gaps: [RunGaps; 2],
}

impl RaiseGaps {
    /// Takes a run into account.
    #[inline(always)]
    pub fn add(&mut self, run: ProbeRun) {
        let last = self.last;
        self.last = run;
        let has_run_through = last.thread == run.thread && last.switches == run.switches;
        if has_run_through && last.is_recorded == run.is_recorded {
            let gaps = if run.is_recorded == 0 {
                &mut self.gaps[0]
            } else {
                &mut self.gaps[1]
            };
            gaps.count = gaps.count.wrapping_add(1);
            gaps.ns = gaps
                .ns
                .wrapping_add(run.began_ns.wrapping_sub(last.began_ns));
        }
    }
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

    #[test]
    fn only_gaps_count_in_which_the_thread_had_the_processor_and_nothing_else_changed() {
        let mut gaps = RaiseGaps::default();
        for (thread, switches, began_ns, is_recorded) in [
            (1, 5, 100, 0),
            (1, 5, 130, 0),
            // It has lost the processor.
            (1, 6, 200, 0),
            // Another thread.
            (2, 6, 210, 0),
            (1, 6, 220, 0),
            // Recorded from now on.
            (1, 6, 223, 1),
            (1, 6, 323, 1),
            (1, 6, 423, 1),
            (1, 6, 430, 0),
            (1, 6, 437, 0),
        ] {
            gaps.add(ProbeRun {
                thread,
                switches,
                began_ns,
                is_recorded,
            });
        }
        let [idle, recorded] = gaps.gaps;
        assert_eq!((idle.count, idle.ns), (2, 37));
        assert_eq!((recorded.count, recorded.ns), (2, 200));
    }
}
