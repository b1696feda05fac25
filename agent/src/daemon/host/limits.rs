//! What keeps the agent of a host within its limits of CPU time, memory and open files.

use std::time::Instant;

use tracing::{info, warn};

use super::Host;
use crate::{
    daemon::{target_table::Relabel, telemetry::Usage},
    session::{EXECUTABLES_STAY, InUse, Profiles, memory},
    targets::labels::Unmatched,
};

impl Host {
    /// Lowers the sampling rate when sampling costs too much, and raises it again.
    pub(super) fn limit_rate(&mut self) {
        let used = self.session.cpu_time();
        let Some(adjusted) = self
            .limit
            .adjust(used, self.config.rate, self.periods.clock)
        else {
            return;
        };
        match self.session.bpf.set_period(adjusted.period) {
            Ok(()) => {
                info!(
                    rate = 1.0 / adjusted.period.as_secs_f64(),
                    before = 1.0 / self.periods.clock.as_secs_f64(),
                    used = adjusted.used,
                    max_cpu = self.config.max_cpu,
                    "the sampling rate changes with the CPU time that sampling uses"
                );
                self.periods.clock = adjusted.period;
            }
            Err(error) => warn!("the sampling rate is unchanged: {error}"),
        }
    }

    /// Evicts what is no longer needed, and more when the agent uses more memory than configured.
    pub(super) fn evict(&mut self) {
        // A profile on demand may span many windows.
        if self.on_demand.is_empty() {
            self.targets.remove_exited();
            self.session.profiles.run(Profiles::remove_ended);
        }
        let changed = self.targets.relabel(Relabel::Unknown);
        self.exclude(changed);
        if let Some(unmatched) = self.targets.take_unmatched(Instant::now()) {
            say_unmatched(&unmatched);
        }
        self.forget_executables();
        let (stacks, code_objects) = self.session.profiles.status().cached();
        let bytes = Usage::now().resident_bytes;
        let in_use = InUse {
            entries: stacks + code_objects,
            bytes,
            max_bytes: self.config.max_memory,
            open_since: self.on_demand.open_since(),
        };
        if bytes > self.config.max_memory {
            self.warn_of_memory();
        }
        let due = self.schedule.end_window(Instant::now(), &in_use);
        self.session.evict(due);
        self.session.profiles.run(|_| memory::trim());
    }

    /// Forgets executables that no process has mapped for long, or since the window began where there
    /// are many of them.
    fn forget_executables(&mut self) {
        let counts = self.session.examinations().executables.counts();
        let before = if counts.are_many_unused {
            Some(self.began.at)
        } else {
            Instant::now().checked_sub(EXECUTABLES_STAY)
        };
        let open_since = self.on_demand.open_since();
        if let Some(before) = before {
            let before = open_since.map_or(before, |open| before.min(open));
            self.session.forget_executables(before);
        }
        if counts.not_opened > 0 && !self.totals.has_left_out_files {
            self.totals.has_left_out_files = true;
            warn!(
                open = counts.open,
                "processes map more different executables than the agent opens: \
                 the code of some has no names"
            );
        }
    }

    /// Counts a window at whose end memory use is above the limit.
    fn warn_of_memory(&mut self) {
        if self.totals.memory_limit_reached == 0 {
            warn!(
                limit_bytes = self.config.max_memory,
                "the agent uses more memory than `max_memory`: caches are evicted"
            );
        }
        self.totals.memory_limit_reached += 1;
    }
}

/// Says which conditions of the selection have matched no process: `exclude` may be the same on all hosts, of which
/// others run such processes.
fn say_unmatched(unmatched: &Unmatched) {
    if unmatched.is_nothing_included {
        warn!(
            conditions = ?unmatched.include,
            "no process is profiled: none matches a condition of `include`"
        );
    } else if !unmatched.include.is_empty() {
        let conditions = &unmatched.include;
        warn!(
            ?conditions,
            "no process matches these conditions of `include`"
        );
    }
    if !unmatched.exclude.is_empty() {
        let conditions = &unmatched.exclude;
        info!(
            ?conditions,
            "no process matches these conditions of `exclude`"
        );
    }
}
