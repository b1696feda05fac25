//! Counters as metrics, and the text of metrics.

use super::{COUNTERS, Counter, Metrics, classic, waits::WAITS};

#[test]
fn every_counter_of_the_bpf_programs_is_a_metric() {
    // Counted in pairs of steps, which are one event; a time, for the budget of the probe.
    let elsewhere = [
        Counter::CPU_HOTPLUG_CHANGES,
        Counter::PROBE_NS,
        Counter::ALLOCATION_NS,
    ];
    let mut exported = COUNTERS.map(|(counter, ..)| counter).to_vec();
    exported.extend(WAITS);
    let all = (0..Counter::COUNT).map(Counter);
    let missing: Vec<_> = all
        .filter(|counter| !exported.contains(counter) && !elsewhere.contains(counter))
        .collect();
    assert_eq!(missing, []);
}

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
