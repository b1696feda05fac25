//! Metrics in the text formats of Prometheus and `OpenMetrics`.

mod exporters;
mod waits;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use agent_common::counter::Counter;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text::encode},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::usage::{self, Usage};
use crate::{bpf::Counters, targets::kubernetes};

/// Counters of the BPF programs, with their metrics.
const COUNTERS: [(Counter, &str, &str); 38] = [
    (Counter::SAMPLES, "profiling_agent_samples", "Samples taken"),
    (
        Counter::LOST_SAMPLES,
        "profiling_agent_samples_lost",
        "Samples dropped because the ring buffer was full",
    ),
    (
        Counter::PASS_SAMPLES,
        "profiling_agent_pass_samples",
        "Samples of running threads that passes over the threads asked for",
    ),
    (
        Counter::UNTRACKED_SAMPLES,
        "profiling_agent_unknown_process_samples",
        "Samples of processes that found no room in the process table",
    ),
    (
        Counter::STACKS,
        "profiling_agent_python_stacks_sent",
        "Python stacks sent",
    ),
    (
        Counter::LOST_STACKS,
        "profiling_agent_python_stacks_lost",
        "Python stacks dropped because the ring buffer was full",
    ),
    (
        Counter::NATIVE_STACKS,
        "profiling_agent_native_stacks_sent",
        "Native stacks sent",
    ),
    (
        Counter::LOST_NATIVE_STACKS,
        "profiling_agent_native_stacks_lost",
        "Native stacks dropped because the ring buffer was full",
    ),
    (
        Counter::CODE_OBJECTS,
        "profiling_agent_code_objects_sent",
        "Python code objects sent",
    ),
    (
        Counter::LOST_CODE_OBJECTS,
        "profiling_agent_code_objects_lost",
        "Code objects dropped because the ring buffer was full",
    ),
    (
        Counter::DEFERRED_CODE_OBJECTS,
        "profiling_agent_code_objects_deferred",
        "Code objects left for a later sample because their process has too many new ones",
    ),
    (
        Counter::CODE_FAULTS,
        "profiling_agent_code_objects_unreadable",
        "Code objects with a part that could not be read",
    ),
    (
        Counter::UNRESOLVED_FRAMES,
        "profiling_agent_unresolved_frames",
        "Python frames whose code object could not be read for their sample",
    ),
    (
        Counter::LOST_PROCESS_EVENTS,
        "profiling_agent_process_events_lost",
        "Process events dropped because the ring buffer was full",
    ),
    (
        Counter::UNTRACKED_PROCESSES,
        "profiling_agent_untracked_processes",
        "Processes that are not sampled because the process table is full",
    ),
    (
        Counter::ABSENT_PAGES,
        "profiling_agent_nonresident_pages",
        "Samples that needed a page that was not resident",
    ),
    (
        Counter::TRUNCATED,
        "profiling_agent_deep_samples",
        "Samples with more Python frames than a stack may have",
    ),
    (
        Counter::LOST_THREAD_NAMES,
        "profiling_agent_thread_names_lost",
        "Thread names dropped because the ring buffer was full",
    ),
    (
        Counter::THREAD_SEARCHES,
        "profiling_agent_thread_searches",
        "Searches for the Python state of a thread",
    ),
    (
        Counter::CODE_REVALIDATIONS,
        "profiling_agent_code_object_revalidations",
        "Code objects that were compared with what was sent before",
    ),
    (
        Counter::CODE_REUSED,
        "profiling_agent_code_objects_replaced",
        "Code objects found at the address of an earlier one",
    ),
    (
        Counter::CODE_LOOKUPS,
        "profiling_agent_native_address_lookups",
        "Native addresses looked up in mappings and unwind tables",
    ),
    (
        Counter::UNFINISHED_STACKS,
        "profiling_agent_native_stacks_unfinished",
        "Native stacks that ended at code not known yet and were sent with a copy of their thread's stack",
    ),
    (
        Counter::UNCOPIED_STACKS,
        "profiling_agent_native_stacks_uncopied",
        "Native stacks that ended at code not known yet, without a copy because too much was copied or unread",
    ),
    (
        Counter::GIVEN_BACK_PAGES,
        "profiling_agent_given_back_pages",
        "Resident pages that processes have given back whose growth of memory is profiled",
    ),
    (
        Counter::LOST_MOVES,
        "profiling_agent_memory_moves_lost",
        "Moves of memory that were not recorded because there were too many",
    ),
    (
        Counter::TRACEBACKS,
        "profiling_agent_exception_probe_runs",
        "Runs of the probe of exceptions: frames that an exception has left or in which it was caught",
    ),
    (
        Counter::RAISES,
        "profiling_agent_exceptions_recorded",
        "Exceptions that were recorded",
    ),
    (
        Counter::LOST_RAISES,
        "profiling_agent_exception_probe_runs_lost",
        "Runs of the probe of exceptions that another one on the same processor has prevented",
    ),
    (
        Counter::ALLOCATIONS,
        "profiling_agent_allocation_probe_runs",
        "Runs of the probes of allocations: calls of functions that allocate memory",
    ),
    (
        Counter::LOST_ALLOCATIONS,
        "profiling_agent_allocations_lost",
        "Allocations that were due and not recorded because of another one on the same processor",
    ),
    (
        Counter::REFUSED_ANNOUNCEMENTS,
        "profiling_agent_allocation_announcements_refused",
        "Allocations that programs have announced with sizes that cannot be, or that cannot be read",
    ),
    (
        Counter::REFUSED_THREAD_SEARCHES,
        "profiling_agent_thread_searches_refused",
        "Searches for the Python state of a thread that were not made because those in its process take too long",
    ),
    (
        Counter::SWITCHES,
        "profiling_agent_traced_switches",
        "Context switches of profiled threads that were traced",
    ),
    (
        Counter::UNTRACED_SWITCHES,
        "profiling_agent_untraced_switches",
        "Context switches of threads that found no room in the table of traced threads",
    ),
    (
        Counter::SAMPLED_WAITS,
        "profiling_agent_sampled_waits",
        "Traced waits that were sampled with their stack",
    ),
    (
        Counter::LOST_WAITS,
        "profiling_agent_sampled_waits_lost",
        "Records of sampled waits dropped because the ring buffer was full",
    ),
    (
        Counter::UNKNOWN_LOCK_RELEASES,
        "profiling_agent_lock_waits_ended_otherwise",
        "Waits for locks that a time limit, a signal, or a thread that has the lock elsewhere has ended",
    ),
];

/// Metrics, by name.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<&'static str, Family>);

/// All values of a name.
#[derive(Debug)]
struct Family {
    help: &'static str,
    values: Vec<(Vec<(&'static str, String)>, Value)>,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Counter(u64),
    Seconds(f64),
    Gauge(f64),
}

impl Value {
    fn encode(self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Self::Counter(value) => ConstCounter::new(value).encode(encoder),
            Self::Seconds(value) => ConstCounter::new(value).encode(encoder),
            Self::Gauge(value) => ConstGauge::new(value).encode(encoder),
        }
    }
}

impl Metrics {
    /// Adds a counter; `_total` is appended to its name.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.add(name, help, labels, Value::Counter(value));
    }

    /// Adds a gauge.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.add(name, help, labels, Value::Gauge(value));
    }

    /// Adds a gauge that is a count.
    pub fn amount(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        amount: impl TryInto<u32>,
    ) {
        let amount = amount.try_into().unwrap_or(u32::MAX);
        self.gauge(name, help, labels, amount.into());
    }

    /// Adds what the agent uses itself, under the names of Prometheus' client libraries.
    pub fn usage(&mut self, usage: &Usage) {
        let cpu = Value::Seconds(usage.cpu.as_secs_f64());
        self.add(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds, without the BPF programs",
            &[],
            cpu,
        );
        #[expect(clippy::cast_precision_loss, reason = "a gauge has no more")]
        let bytes = usage.resident_bytes as f64;
        self.gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            &[],
            bytes,
        );
        if let Some(start) = usage::start_seconds() {
            let help = "Start time of the process since the Unix epoch in seconds";
            self.gauge("process_start_time_seconds", help, &[], start);
        }
        if let Some(open) = usage::open_files() {
            let help = "Number of open file descriptors";
            self.amount("process_open_fds", help, &[], open);
        }
        let version = env!("CARGO_PKG_VERSION");
        let help = "The version of the agent, as a label";
        self.gauge(
            "profiling_agent_build_info",
            help,
            &[("version", version)],
            1.0,
        );
    }

    /// Adds the counters of the BPF programs.
    pub fn bpf_counters(&mut self, counters: &Counters) {
        for (counter, name, help) in COUNTERS {
            self.counter(name, help, &[], counters.get(counter));
        }
        self.traced_waits(counters);
    }

    /// Adds a counter of CPU time.
    pub fn cpu_time(&mut self, name: &'static str, help: &'static str, used: Duration) {
        self.add(name, help, &[], Value::Seconds(used.as_secs_f64()));
    }

    /// Adds what the sampling program has cost, as the kernel accounts for it.
    pub fn bpf_cost(&mut self, runs: u64, nanoseconds: u64) {
        let help = "Runs of the sampling program";
        self.counter("profiling_agent_bpf_program_runs", help, &[], runs);
        #[expect(clippy::cast_precision_loss, reason = "100 days are exact")]
        let seconds = Value::Seconds(nanoseconds as f64 / 1e9);
        let help = "Time that the sampling program has run";
        self.add("profiling_agent_bpf_program_seconds", help, &[], seconds);
    }

    /// Adds the counters of a source of pod metadata.
    pub fn pods(&mut self, status: &kubernetes::Status) {
        let source = ("source", status.source);
        self.counter(
            "profiling_agent_pod_requests",
            "Requests for the pods of this node",
            &[source],
            status.requests,
        );
        for (reason, count) in &status.failures {
            self.counter(
                "profiling_agent_pod_request_failures",
                "Requests for the pods of this node that failed, by reason",
                &[source, ("reason", reason)],
                *count,
            );
        }
        let help = "Pods of this node in the cache";
        self.amount("profiling_agent_pods", help, &[source], status.pods);
    }

    /// Encodes all metrics in the text format of `OpenMetrics`.
    #[must_use]
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: Value,
    ) {
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, escaped(value)))
            .collect();
        let family = self.0.entry(name).or_insert(Family {
            help,
            values: Vec::new(),
        });
        family.values.push((labels, value));
    }
}

/// Converts `OpenMetrics` text to the classic text format of Prometheus, which most scrapers read and
/// `promtool` checks: there the name of a counter's family ends in `_total` too.
#[must_use]
pub fn classic(text: &str) -> String {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<_> = kinds
        .filter_map(|kind| kind.strip_suffix(" counter"))
        .collect();
    let mut classic = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        match split_comment(line) {
            Some((word, name, rest)) if counters.contains(name) => {
                classic.extend([word, name, "_total ", rest]);
            }
            _ => classic.push_str(line),
        }
        classic.push('\n');
    }
    classic
}

/// Splits a `# HELP` or `# TYPE` line into its keyword, the name and the rest.
fn split_comment(line: &str) -> Option<(&str, &str, &str)> {
    let word = ["# HELP ", "# TYPE "]
        .into_iter()
        .find(|word| line.starts_with(word))?;
    let (name, rest) = line[word.len()..].split_once(' ')?;
    Some((word, name, rest))
}

/// Escapes a label value, which the encoder does not do: it may be the path of any user's file.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text
}

impl prometheus_client::collector::Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, family) in &self.0 {
            let Some((_, first)) = family.values.first() else {
                continue;
            };
            let kind = match first {
                Value::Counter(_) => ConstCounter::new(0_u64).metric_type(),
                Value::Seconds(_) => ConstCounter::new(0.0_f64).metric_type(),
                Value::Gauge(_) => ConstGauge::new(0.0_f64).metric_type(),
            };
            let mut descriptor = encoder.encode_descriptor(name, family.help, None, kind)?;
            for (labels, value) in &family.values {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(name, value)| (Cow::Borrowed(*name), Cow::Borrowed(&**value)))
                    .collect();
                if labels.is_empty() {
                    value.encode(descriptor)?;
                    break;
                }
                value.encode(descriptor.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
