//! Metrics, as Prometheus takes them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use agent_common::counter::Counter;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text::encode},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::Usage;
use crate::{export::Status, kernel::Counters, kubernetes};

/// What the kernel half counts, by what it is called here.
const COUNTED: [(Counter, &str, &str); 14] = [
    (Counter::SAMPLES, "agent_samples", "Samples taken"),
    (
        Counter::LOST_SAMPLES,
        "agent_lost_samples",
        "Samples that found the ring buffer full",
    ),
    (
        Counter::UNTRACKED_SAMPLES,
        "agent_unknown_process_samples",
        "Samples of processes that are not known because too many are",
    ),
    (
        Counter::STACKS,
        "agent_python_stacks_sent",
        "Python stacks sent",
    ),
    (
        Counter::LOST_STACKS,
        "agent_python_stacks_lost",
        "Python stacks that found the ring buffer full",
    ),
    (
        Counter::NATIVE_STACKS,
        "agent_native_stacks_sent",
        "Native stacks sent",
    ),
    (
        Counter::LOST_NATIVE_STACKS,
        "agent_native_stacks_lost",
        "Native stacks that found the ring buffer full",
    ),
    (
        Counter::CODE_OBJECTS,
        "agent_code_objects_sent",
        "Code objects of Python sent",
    ),
    (
        Counter::LOST_CODE_OBJECTS,
        "agent_code_objects_lost",
        "Code objects that found the ring buffer full",
    ),
    (
        Counter::CODE_FAULTS,
        "agent_code_objects_unreadable",
        "Code objects of which some part could not be read",
    ),
    (
        Counter::UNRESOLVED_FRAMES,
        "agent_unresolved_frames",
        "Python frames whose code object could not be described for their sample",
    ),
    (
        Counter::LOST_PROCESS_EVENTS,
        "agent_process_events_lost",
        "Starts and ends of processes that found the ring buffer full",
    ),
    (
        Counter::UNTRACKED_PROCESSES,
        "agent_processes_left_out",
        "Processes that could not be profiled because too many are",
    ),
    (
        Counter::ABSENT_PAGES,
        "agent_absent_pages",
        "Samples that found a page of the process not in memory",
    ),
];

/// Metrics that are being collected.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<&'static str, Family>);

/// All that have a name.
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
    /// Adds a number of something since the agent began; `_total` is added to its name.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.add(name, help, labels, Value::Counter(value));
    }

    /// Adds a number of something at present.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.add(name, help, labels, Value::Gauge(value));
    }

    /// Adds how many there are of something at present.
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

    /// Adds what the agent uses itself.
    pub fn usage(&mut self, usage: &Usage) {
        let cpu = Value::Seconds(usage.cpu.as_secs_f64());
        self.add(
            "agent_cpu_seconds",
            "CPU time that the agent has used, without its kernel half",
            &[],
            cpu,
        );
        #[expect(clippy::cast_precision_loss, reason = "a gauge has no more")]
        let bytes = usage.resident_bytes as f64;
        self.gauge("agent_resident_memory_bytes", "Memory in RAM", &[], bytes);
        let version = env!("CARGO_PKG_VERSION");
        let help = "Which agent this is";
        self.gauge("agent_build_info", help, &[("version", version)], 1.0);
    }

    /// Adds what the kernel half has counted.
    pub fn kernel(&mut self, counters: &Counters) {
        for (counter, name, help) in COUNTED {
            self.counter(name, help, &[], counters.get(counter));
        }
    }

    /// Adds what the kernel half has cost, by the kernel's own account.
    pub fn cost(&mut self, runs: u64, nanoseconds: u64) {
        let help = "Runs of the program that takes samples";
        self.counter("agent_kernel_program_runs", help, &[], runs);
        #[expect(clippy::cast_precision_loss, reason = "100 days are exact")]
        let seconds = Value::Seconds(nanoseconds as f64 / 1e9);
        let help = "Time that the program that takes samples has run";
        self.add("agent_kernel_program_seconds", help, &[], seconds);
    }

    /// Adds how an exporter is doing.
    pub fn exporter(&mut self, status: &Status) {
        let exporter = ("exporter", &*status.name);
        let counts = &status.counts;
        let mut counter = |name, help, value| self.counter(name, help, &[exporter], value);
        counter(
            "agent_export_accepted",
            "Profiles handed to the exporter",
            counts.accepted,
        );
        counter(
            "agent_export_delivered",
            "Profiles that the destination has taken",
            counts.delivered,
        );
        counter(
            "agent_export_delivered_bytes",
            "Their size as it was sent",
            counts.delivered_bytes,
        );
        counter(
            "agent_export_attempts",
            "Attempts to deliver a profile",
            counts.attempts,
        );
        for (reason, count) in counts.dropped.by_reason() {
            let labels = [exporter, ("reason", reason)];
            let help = "Profiles that were given up, by reason";
            self.counter("agent_export_dropped", help, &labels, count);
        }
        for (reason, count) in counts.failures.by_reason() {
            let labels = [exporter, ("reason", reason)];
            let help = "Attempts that failed, by reason";
            self.counter("agent_export_failures", help, &labels, count);
        }
        let waiting = counts.waiting;
        for (place, count) in [("memory", waiting.memory), ("spool", waiting.spool)] {
            let labels = [exporter, ("in", place)];
            let help = "Profiles that wait to be delivered";
            self.amount("agent_export_waiting", help, &labels, count);
        }
    }

    /// Adds how somebody is doing who is asked what pods are called.
    pub fn pods(&mut self, status: &kubernetes::Status) {
        let source = ("source", status.source);
        self.counter(
            "agent_pod_requests",
            "Requests for the pods of this node",
            &[source],
            status.requests,
        );
        for (reason, count) in &status.failures {
            self.counter(
                "agent_pod_request_failures",
                "Requests for the pods of this node that failed, by reason",
                &[source, ("reason", reason)],
                *count,
            );
        }
        let help = "Pods of this node that are known";
        self.amount("agent_pods", help, &[source], status.pods);
    }

    /// All of them, in the text format of `OpenMetrics`.
    #[must_use]
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // A string takes all that is written to it.
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

/// A text of `OpenMetrics` in the older format of Prometheus, which most others read and its own tool
/// checks: there a counter is called as its values are.
#[must_use]
pub fn classic(text: &str) -> String {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<_> = kinds
        .filter_map(|kind| kind.strip_suffix(" counter"))
        .collect();
    let mut classic = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        match described(line) {
            Some((word, name, rest)) if counters.contains(name) => {
                classic.extend([word, name, "_total ", rest]);
            }
            _ => classic.push_str(line),
        }
        classic.push('\n');
    }
    classic
}

/// What a line tells of a metric: the kind of the line, the name, the rest.
fn described(line: &str) -> Option<(&str, &str, &str)> {
    let word = ["# HELP ", "# TYPE "]
        .into_iter()
        .find(|word| line.starts_with(word))?;
    let (name, rest) = line[word.len()..].split_once(' ')?;
    Some((word, name, rest))
}

/// A value of a label as it is written, which the encoder leaves to others: it may be the path of
/// anybody's file.
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
                    // The only one: there are no others to tell it from.
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
mod tests {
    use super::{Metrics, classic};

    #[test]
    fn names_and_values_are_those_of_prometheus() {
        let mut metrics = Metrics::default();
        metrics.counter("agent_a", "What a is", &[("why", "x\"y\\\n")], 7);
        metrics.counter("agent_a", "What a is", &[("why", "z")], u64::MAX);
        metrics.gauge("agent_b", "What b is", &[], 0.5);
        let text = metrics.text();
        assert_eq!(
            classic(&text),
            "# HELP agent_a_total What a is\n\
             # TYPE agent_a_total counter\n\
             agent_a_total{why=\"x\\\"y\\\\\\n\"} 7\n\
             agent_a_total{why=\"z\"} 18446744073709551615\n\
             # HELP agent_b What b is\n\
             # TYPE agent_b gauge\n\
             agent_b 0.5\n"
        );
        assert_eq!(
            text,
            "# HELP agent_a What a is\n\
             # TYPE agent_a counter\n\
             agent_a_total{why=\"x\\\"y\\\\\\n\"} 7\n\
             agent_a_total{why=\"z\"} 18446744073709551615\n\
             # HELP agent_b What b is\n\
             # TYPE agent_b gauge\n\
             agent_b 0.5\n\
             # EOF\n"
        );
    }
}
