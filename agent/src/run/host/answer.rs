//! What is asked for while the agent runs: metrics, and profiles of the next seconds.

use std::time::Instant;

use super::Host;
use crate::{
    aggregate::Window,
    encode::{self, Format, encode},
    listen::Asked,
    run::time::Began,
    telemetry::{Metrics, Usage},
};

/// Most profiles that are made for others at the same time.
const MAX_PULLS: usize = 16;

/// Profiles that are being made for others.
#[derive(Default)]
pub(super) struct Pulls(Vec<Pull>);

struct Pull {
    asked: Asked,
    window: u64,
    began: Began,
}

impl Pull {
    fn ends(&self) -> Instant {
        self.began.at + self.asked.duration
    }
}

impl Pulls {
    /// When the next one is complete.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(Pull::ends).min()
    }
}

impl Host {
    /// Begins with a profile for somebody; one too many is dropped, which is an answer too.
    pub(super) fn begin_pull(&mut self, asked: Asked) {
        if self.pulls.0.len() < MAX_PULLS {
            self.pulls.0.push(Pull {
                asked,
                window: self.capture.aggregator.open_window(),
                began: Began::now(),
            });
        }
    }

    /// Gives the profiles that are complete, and ends those that nobody waits for.
    pub(super) fn answer_pulls(&mut self) {
        let now = Instant::now();
        let is_over = |pull: &Pull| pull.ends() <= now || pull.asked.reply.is_closed();
        while let Some(index) = self.pulls.0.iter().position(is_over) {
            let Pull {
                asked,
                window,
                began,
            } = self.pulls.0.swap_remove(index);
            let Some(window) = self.capture.aggregator.close_window(window) else {
                continue;
            };
            let about = began.about(self.period);
            let window = self.matching(window, &asked);
            let profile = self.profile(&window, &about);
            let mut pprof = Vec::new();
            if encode(
                &profile,
                Format::Pprof,
                &encode::Options::default(),
                &mut pprof,
            )
            .is_ok()
            {
                // Whoever asked may be gone.
                let _ = asked.reply.send(pprof);
            }
        }
    }

    /// The part of a window that was asked for.
    fn matching(&self, window: Window, asked: &Asked) -> Window {
        let Some(population) = &self.capture.population else {
            return window;
        };
        let is_asked_for = |pid: u32| {
            let labels = population.labels(pid)?;
            let has_label =
                |(name, value): &(String, String)| labels.get(name) == Some(value.as_str());
            let is_process = asked.pid.is_none_or(|asked| asked == pid);
            (is_process && asked.labels.iter().all(has_label)).then_some(())
        };
        window.split(is_asked_for).remove(&()).unwrap_or_default()
    }

    /// The metrics, as Prometheus takes them.
    pub(super) fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        let usage = Usage::now();
        metrics.usage(&usage);
        if let Ok(counters) = self.kernel.counters() {
            metrics.kernel(&counters);
        }
        if let Some((runs, nanoseconds)) = self.kernel.cost() {
            metrics.cost(runs, nanoseconds);
        }
        let totals = &self.totals;
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
            self.kernel.processors(),
        );
        metrics.counter(
            "agent_processor_changes",
            "How often clocks were started anew because processors came or went",
            &[],
            totals.processor_changes,
        );
        if let Some(population) = &self.capture.population {
            let (profiled, excluded) = population.count();
            let help = "Processes that are known";
            let name = "agent_processes";
            metrics.amount(name, help, &[("state", "profiled")], profiled);
            metrics.amount(name, help, &[("state", "excluded")], excluded);
        }
        let remembered = "What is remembered of what the kernel half has sent";
        for (what, amount) in [
            ("stacks", self.capture.aggregator.known_stacks()),
            ("code_objects", self.capture.symbolizer.len()),
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
