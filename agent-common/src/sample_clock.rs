//! How many sampling periods a sample stands for.

use crate::volatile::Volatile;

/// The clock of a processor, and the sample that it took last.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SampleClock {
    /// When the tick of that sample was due.
    due_ns: Volatile<u64>,
    /// Context switches of its thread until then.
    switches: Volatile<u64>,
    tid: Volatile<u32>,
    reserved: u32,
}

impl SampleClock {
    /// Before the first sample.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            due_ns: Volatile::new(0),
            switches: Volatile::new(0),
            tid: Volatile::new(0),
            reserved: 0,
        }
    }

    /// Periods that a sample taken now stands for; it becomes the last one.
    ///
    /// A tick can be late or missing when interrupts were off or a virtual machine was not
    /// scheduled. The scheduler charges such a time to the thread, and so does the sample if the
    /// thread has not left the processor since the last one. Otherwise the time cannot be
    /// attributed: the first thread to run after a pause did not use it.
    ///
    /// Ticks are due at equal distances, however late they come: of one that is late and the next
    /// one that is not, each stands for one period.
    #[inline(always)]
    pub fn periods(&mut self, now_ns: u64, period_ns: u64, tid: u32, switches: u64) -> u32 {
        let due_ns = self.due_ns.get();
        // A tick can be a little early.
        let passed_ns = now_ns.wrapping_sub(due_ns).wrapping_add(period_ns / 16);
        let ticks = passed_ns.checked_div(period_ns).unwrap_or(0);
        let is_same = self.tid.get() == tid && self.switches.get() == switches;
        self.due_ns.set(if ticks == 0 {
            // The last one was late itself.
            now_ns
        } else {
            due_ns.wrapping_add(ticks.wrapping_mul(period_ns))
        });
        self.tid.set(tid);
        self.switches.set(switches);
        if is_same && ticks > 1 {
            ticks as u32
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SampleClock;

    const PERIOD_NS: u64 = 10_000_000;
    const TID: u32 = 7;

    /// A clock whose last tick, of the thread [`TID`] with 3 switches, was due after 100 periods.
    fn clock() -> SampleClock {
        let mut clock = SampleClock::new();
        clock.periods(100 * PERIOD_NS, PERIOD_NS, TID, 3);
        clock
    }

    #[test]
    fn a_thread_that_stayed_on_the_processor_gets_the_ticks_that_were_missed() {
        let mut clock = clock();
        assert_eq!(clock.periods(104 * PERIOD_NS, PERIOD_NS, TID, 3), 4);
        assert_eq!(clock.periods(105 * PERIOD_NS, PERIOD_NS, TID, 3), 1);
    }

    #[test]
    fn time_that_cannot_be_attributed_is_dropped() {
        assert_eq!(clock().periods(104 * PERIOD_NS, PERIOD_NS, TID, 4), 1);
        assert_eq!(clock().periods(104 * PERIOD_NS, PERIOD_NS, TID + 1, 3), 1);
    }

    #[test]
    fn a_late_tick_and_a_punctual_one_stand_for_one_period_each() {
        let mut clock = clock();
        let late_ns = 101 * PERIOD_NS + PERIOD_NS * 3 / 4;
        assert_eq!(clock.periods(late_ns, PERIOD_NS, TID, 3), 1);
        assert_eq!(clock.periods(102 * PERIOD_NS, PERIOD_NS, TID, 3), 1);
        assert_eq!(clock.periods(103 * PERIOD_NS - 1_000, PERIOD_NS, TID, 3), 1);
    }

    #[test]
    fn without_a_period_a_sample_counts_once() {
        assert_eq!(clock().periods(104 * PERIOD_NS, 0, TID, 3), 1);
    }
}
