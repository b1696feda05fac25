//! The metrics of the agent of a host.

use std::time::Duration;

use super::{
    target_table::TargetTable,
    telemetry::{Metrics, Usage},
    window::Totals,
};
use crate::{export::Exporters, session::Session, targets::kubernetes};

/// What metrics are made of.
pub(super) struct State<'a> {
    pub(super) session: &'a Session,
    pub(super) targets: &'a TargetTable,
    pub(super) totals: &'a Totals,
    /// Time between two samples at present.
    pub(super) period: Duration,
    pub(super) pods: &'a kubernetes::Names,
    pub(super) exporters: &'a Exporters,
}

impl State<'_> {
    /// The metrics, as Prometheus takes them.
    pub(super) fn render(&self) -> String {
        let mut metrics = Metrics::default();
        let usage = Usage::now();
        metrics.usage(&usage);
        if let Ok(counters) = self.session.bpf.counters() {
            metrics.kernel(&counters);
        }
        if let Some((runs, nanoseconds)) = self.session.bpf.cost() {
            metrics.cost(runs, nanoseconds);
        }
        let totals = self.totals;
        metrics.gauge(
            "agent_sampling_rate_hertz",
            "Samples per second of CPU time at present",
            &[],
            (1e3 / self.period.as_secs_f64()).round() / 1e3,
        );
        metrics.amount(
            "agent_processors",
            "Processors that are sampled",
            &[],
            self.session.bpf.processors(),
        );
        metrics.counter(
            "agent_processor_changes",
            "How often clocks were started anew because processors came or went",
            &[],
            totals.processor_changes,
        );
        let (profiled, excluded) = self.targets.count();
        let help = "Processes that are known";
        let name = "agent_processes";
        metrics.amount(name, help, &[("state", "profiled")], profiled);
        metrics.amount(name, help, &[("state", "excluded")], excluded);
        let remembered = "What is remembered of what the kernel half has sent";
        for (what, amount) in [
            ("stacks", self.session.aggregator.cached_stacks()),
            ("code_objects", self.session.python.len()),
        ] {
            metrics.amount("agent_remembered", remembered, &[("what", what)], amount);
        }
        metrics.counter(
            "agent_memory_limit_reached",
            "Windows at whose end more memory was used than is allowed",
            &[],
            totals.memory_limit_reached,
        );
        metrics.counter("agent_windows", "Windows that ended", &[], totals.windows);
        metrics.counter("agent_profiles", "Profiles made", &[], totals.profiles);
        metrics.counter(
            "agent_profile_bytes",
            "Size of the profiles as gzipped pprof",
            &[],
            totals.pprof_bytes,
        );
        metrics.counter(
            "agent_profile_samples",
            "Samples in the profiles",
            &[],
            totals.samples,
        );
        metrics.counter(
            "agent_window_lost_samples",
            "Samples that found no room in a window",
            &[],
            totals.lost_samples,
        );
        for (reason, count) in &totals.losses {
            metrics.counter(
                "agent_incomplete_samples",
                "Samples whose stacks are not whole, by reason",
                &[("reason", reason)],
                *count,
            );
        }
        metrics.counter(
            "agent_native_stacks_whole",
            "Native stacks that lead to the entry of their process or thread",
            &[],
            totals.whole_stacks,
        );
        for (executable, count) in &totals.cut_stacks {
            metrics.counter(
                "agent_native_stacks_cut",
                "Native stacks that do not, by the executable in which they end",
                &[("executable", executable)],
                *count,
            );
        }
        for status in self.pods.status() {
            metrics.pods(&status);
        }
        for status in self.exporters.status() {
            metrics.exporter(&status);
        }
        metrics.text()
    }
}
