//! The alerts: Prometheus accepts them, each fires for its cause, and its operator has the same ones.

use std::{collections::BTreeSet, process::Command};

use serde_yaml_ng::Value;
use xtask::reference_tools;

use super::{deploy, output, read, texts, validating_python, yaml};

/// The metrics of an agent, which the golden tests compare.
const METRICS: &str = include_str!("../golden/results/host.metrics.classic.txt");

/// The only metric in the alerts that agents outside of clusters do not have.
const METRIC_OF_CLUSTERS: &str = "profiling_agent_pod_request_failures_total";

/// Manifests of the component, with the definitions of their types, which Kubernetes itself does not have.
const MONITORING: [(&str, &str); 2] = [
    ("pod-monitor.yaml", "monitoring.coreos.com_podmonitors.yaml"),
    (
        "prometheus-rule.yaml",
        "monitoring.coreos.com_prometheusrules.yaml",
    ),
];

#[test]
fn the_alerts_fire_for_their_causes() {
    let promtool = reference_tools::prometheus().unwrap().tool;
    let run = |what: &str, file: &str| {
        let mut promtool = Command::new(&promtool);
        output(promtool.args([what, "rules"]).arg(deploy(file)))
    };
    run("check", "prometheus/agent.rules.yaml");
    run("test", "prometheus/agent.rules.test.yaml");
    let tests = read("prometheus/agent.rules.test.yaml");
    for rule in alerts() {
        let name = rule["alert"].as_str().unwrap();
        assert!(tests.contains(&format!("\"{name}\"")), "{name} has no test");
    }
}

#[test]
fn the_alerts_have_metrics_that_exist() {
    let series = METRICS.lines().filter(|line| !line.starts_with('#'));
    let mut existing: BTreeSet<_> = series
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect();
    existing.insert(METRIC_OF_CLUSTERS);
    for rule in alerts() {
        let expression = rule["expr"].as_str().unwrap();
        let words =
            expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let metrics = words
            .filter(|word| word.starts_with("profiling_agent_") || word.starts_with("process_"));
        for metric in metrics {
            assert!(existing.contains(metric), "{metric}");
        }
    }
}

/// The alerts, which are the same for Prometheus and for its operator.
fn alerts() -> Vec<Value> {
    let rules = yaml("prometheus/agent.rules.yaml");
    let manifest = yaml("kubernetes/monitoring/prometheus-rule.yaml");
    assert_eq!(manifest["spec"], rules);
    let alerts = rules["groups"][0]["rules"].as_sequence().unwrap();
    assert!(alerts.len() >= 10);
    alerts.clone()
}

#[test]
fn the_component_is_valid_and_finds_the_pods() {
    let kustomization = yaml("kubernetes/monitoring/kustomization.yaml");
    assert_eq!(
        texts(&kustomization["resources"]),
        MONITORING.map(|(manifest, _)| manifest.to_owned()).into()
    );
    let definitions = reference_tools::prometheus_operator().unwrap();
    for (manifest, definition) in MONITORING {
        let mut python = Command::new(validating_python());
        python.arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/custom_type.py"
        ));
        python.arg(definitions.join(definition));
        output(python.arg(deploy("kubernetes/monitoring").join(manifest)));
    }
    let monitor = yaml("kubernetes/monitoring/pod-monitor.yaml");
    let set = yaml("kubernetes/daemon-set.yaml");
    let template = &set["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], labels);
    // The alerts need a job of this name.
    let job = labels[monitor["spec"]["jobLabel"].as_str().unwrap()].as_str();
    assert_eq!(job, Some("agent"));
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let container = &template["spec"]["containers"][0];
    assert_eq!(endpoint["port"], container["ports"][0]["name"]);
}
