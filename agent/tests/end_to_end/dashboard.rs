//! The Grafana dashboard in `deploy/`.

use std::collections::BTreeSet;

/// Metrics in its queries that exist only if the kernel has statistics of BPF programs, or if a
/// stack was truncated.
pub(super) const SOMETIMES: [&str; 2] = [
    "profiling_agent_bpf_program_seconds_total",
    "profiling_agent_native_stacks_truncated_total",
];

/// Whether an expression may have no value.
pub(super) fn is_sometimes_empty(expression: &str) -> bool {
    names(expression).any(|name| SOMETIMES.contains(&name))
}

/// The names of all metrics in its queries.
pub(super) fn metrics() -> BTreeSet<String> {
    let expressions = expressions();
    let names = expressions.iter().flat_map(|expression| names(expression));
    names.map(str::to_owned).collect()
}

/// All of its queries.
pub(super) fn expressions() -> Vec<String> {
    let dashboard = include_str!("../../../deploy/grafana/agent.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    // A row that is collapsed would have its panels inside.
    let queries = panels.filter(|panel| panel["panels"].as_array() != Some(&Vec::new()));
    let targets = queries.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap())
        .map(str::to_owned)
        .collect()
}

/// The labels by which an expression aggregates.
pub(super) fn labels(expression: &str) -> impl Iterator<Item = &str> {
    let after = expression.split(" by (").skip(1);
    let lists = after.filter_map(|rest| Some(rest.split_once(')')?.0));
    lists.flat_map(|list| list.split(", "))
}

/// The names of the metrics in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| {
        ["profiling_agent_", "process_"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    })
}

#[test]
fn the_metrics_and_labels_of_an_expression_are_found() {
    let expression =
        "topk(10, sum by (x) (rate(profiling_agent_a_total{i=~\"$i\"}[1m]))) / min(process_b)";
    assert_eq!(
        names(expression).collect::<Vec<_>>(),
        ["profiling_agent_a_total", "process_b"]
    );
    assert_eq!(labels(expression).collect::<Vec<_>>(), ["x"]);
    let two = "sum by (y, z) (c) / sum(d)";
    assert_eq!(labels(two).collect::<Vec<_>>(), ["y", "z"]);
}
