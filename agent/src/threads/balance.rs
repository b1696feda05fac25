//! What the kernel's accounts of a thread and its samples differ by.

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It ran.
    Running,
    /// It could run, and waited for a processor.
    Runnable,
    /// The same in a wait that is over: it was woken and has not run yet.
    Woken,
    /// It waited for something else.
    Waiting,
    /// The same, but not in the wait that was seen.
    Earlier,
    /// It was in the first part of a traced wait, which is sampled elsewhere.
    Short,
}

/// Most samples that the accounts may differ by: what a thread ran while passes could not see it.
pub(super) const MAX_SAMPLES: i64 = 100;

/// Nanoseconds that a thread ran, or waited for a processor, by the kernel's accounts, or was in the first parts of
/// traced waits, less those of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "their unit")]
pub(super) struct Balance {
    pub(super) run_ns: i64,
    pub(super) delay_ns: i64,
    pub(super) short_ns: i64,
}

/// Most that a kernel's accounts of a thread that runs are behind.
const TICK_NS: i64 = 10_000_000;

impl Balance {
    /// What a sample of so many nanoseconds shows of a thread that was `seen` doing something, which is paid
    /// for then. `is_current`: the accounts have all but the present wait for a processor; `has_waited`: an
    /// earlier wait is known.
    ///
    /// A pass sees a thread that does not run in its place too seldom: where all processors are busy, the
    /// pass begins when a thread gives up its processor, which then waits. So the kernel's accounts say how
    /// many samples show a thread running or runnable, and the passes say what it does in the others.
    pub(super) fn pay(
        &mut self,
        elapsed_ns: i64,
        seen: Activity,
        is_current: bool,
        has_waited: bool,
    ) -> Activity {
        let least = -elapsed_ns.max(TICK_NS);
        let shown = if self.run_ns >= elapsed_ns {
            Activity::Running
        } else if self.delay_ns >= elapsed_ns {
            Activity::Runnable
        } else if self.short_ns >= elapsed_ns {
            Activity::Short
        } else {
            match seen {
                Activity::Running if has_waited && self.run_ns <= least => Activity::Earlier,
                Activity::Runnable if has_waited && is_current && self.delay_ns <= least => {
                    Activity::Earlier
                }
                Activity::Short if has_waited && self.short_ns <= least => Activity::Earlier,
                Activity::Woken if self.delay_ns <= least => Activity::Waiting,
                Activity::Woken => Activity::Runnable,
                _ => seen,
            }
        };
        match shown {
            Activity::Running => self.run_ns = self.run_ns.saturating_sub(elapsed_ns),
            Activity::Runnable => self.delay_ns = self.delay_ns.saturating_sub(elapsed_ns),
            Activity::Short => self.short_ns = self.short_ns.saturating_sub(elapsed_ns),
            Activity::Woken | Activity::Waiting | Activity::Earlier => {}
        }
        shown
    }

    /// The most of what no sample shows yet.
    pub(super) fn most_ns(&self) -> u64 {
        let most = self.run_ns.max(self.delay_ns).max(self.short_ns);
        u64::try_from(most).unwrap_or(0)
    }

    /// Limits what is remembered to some samples.
    pub(super) fn limit(&mut self, elapsed_ns: i64) {
        let most = elapsed_ns.saturating_mul(MAX_SAMPLES);
        self.run_ns = self.run_ns.clamp(-most, most);
        self.delay_ns = self.delay_ns.clamp(-most, most);
        self.short_ns = self.short_ns.clamp(-most, most);
    }
}
