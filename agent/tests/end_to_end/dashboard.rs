//! The dashboard of Grafana in `deploy/`.

use std::collections::BTreeSet;

/// The names of all metrics that it asks for.
pub(super) fn metrics() -> BTreeSet<String> {
    let dashboard = include_str!("../../../deploy/grafana/agent.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .flat_map(|target| names(target["expr"].as_str().unwrap()))
        .map(str::to_owned)
        .collect()
}

/// Those in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("agent_"))
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    let expression = "topk(10, sum by (x) (rate(agent_a_total{i=~\"$i\"}[1m]))) / min(agent_b)";
    assert_eq!(
        names(expression).collect::<Vec<_>>(),
        ["agent_a_total", "agent_b"]
    );
}
