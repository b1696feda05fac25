//! Metrics of traced context switches.

use std::time::Duration;

use agent_common::{counter::Counter, maps::WaitClass};

use super::{Metrics, Value};
use crate::bpf::Counters;

/// What traced waits are for, with the values of the label `reason`.
const REASONS: [(WaitClass, &str); 7] = [
    (WaitClass::LOCK, "lock"),
    (WaitClass::SLEEP, "sleep"),
    (WaitClass::POLL, "poll"),
    (WaitClass::IO, "io"),
    (WaitClass::CHILD, "child"),
    (WaitClass::PAGE_FAULT, "page-fault"),
    (WaitClass::OTHER, "other"),
];

/// The counters of the BPF programs that are metrics here.
#[cfg(test)]
pub(super) const WAITS: [Counter; 9] = [
    Counter::SWITCH_NS,
    Counter::WAITS,
    Counter::of_waits(WaitClass::LOCK),
    Counter::of_waits(WaitClass::SLEEP),
    Counter::of_waits(WaitClass::POLL),
    Counter::of_waits(WaitClass::IO),
    Counter::of_waits(WaitClass::CHILD),
    Counter::of_waits(WaitClass::PAGE_FAULT),
    Counter::of_waits(WaitClass::OTHER),
];

impl Metrics {
    /// Adds what is known of traced waits.
    pub(super) fn traced_waits(&mut self, counters: &Counters) {
        let seconds = |counter| {
            let duration = Duration::from_nanos(counters.get(counter));
            Value::Seconds(duration.as_secs_f64())
        };
        self.counter(
            "profiling_agent_traced_waits",
            "Traced waits of profiled threads that are over",
            &[],
            counters.get(Counter::WAITS),
        );
        self.add(
            "profiling_agent_switch_tracing_seconds",
            "CPU time that tracing context switches has taken of profiled processes, an estimate",
            &[],
            seconds(Counter::SWITCH_NS),
        );
        for (class, reason) in REASONS {
            self.add(
                "profiling_agent_traced_wait_seconds",
                "Time of traced waits of profiled threads that are over",
                &[("reason", reason)],
                seconds(Counter::of_waits(class)),
            );
        }
    }
}
