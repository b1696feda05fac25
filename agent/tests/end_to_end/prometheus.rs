//! A real Prometheus, which scrapes an agent and evaluates the queries of the dashboard.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use test_support::child;
use xtask::reference_tools::{self, Prometheus};

use super::{
    dashboard,
    host::{Host, RATE, SECOND, free_address, get, request_status_and_body, service, wait_for_cpu},
    machine,
    target::{Killed, mortal},
};

fn programs() -> Prometheus {
    reference_tools::prometheus().unwrap_or_else(|error| panic!("{error:#}"))
}

/// The alerts in `deploy/`.
fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/agent.rules.yaml")
}

/// A server that scrapes one agent each second and evaluates its alerts.
struct Server {
    address: SocketAddr,
    _process: Killed,
    _folder: TempDir,
}

impl Server {
    fn start(agent: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let [file, data, log] =
            ["prometheus.yml", "data", "log"].map(|name| folder.path().join(name));
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs: [{{job_name: agent, static_configs: [{{targets: ['{agent}']}}]}}]
",
            rules = rules().display()
        );
        fs::write(&file, configuration).unwrap();
        let address = free_address();
        let output = File::create(&log).unwrap();
        let mut command = mortal(programs().server);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let mut process = Killed::start(&mut command);
        process.wait_until_reached(&[address], &log);
        child::wait_until("it is ready", || {
            request_status_and_body(address, "/-/ready").0 == "200"
        });
        Self {
            address,
            _process: process,
            _folder: folder,
        }
    }

    /// The values of an expression, which must be valid.
    fn query(&self, expression: &str) -> Vec<f64> {
        let series = self.series(expression);
        let values = series.iter().map(|one| one["value"][1].as_str().unwrap());
        values.map(|value| value.parse().unwrap()).collect()
    }

    /// The series that it gives.
    fn series(&self, expression: &str) -> Vec<Value> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            write!(path, "%{byte:02x}").unwrap();
        }
        let response: Value = serde_json::from_slice(&get(self.address, &path)).unwrap();
        assert_eq!(response["status"], "success", "{expression}: {response}");
        response["data"]["result"].as_array().unwrap().clone()
    }

    /// The alerts, once each was evaluated.
    fn alerts(&self) -> Vec<Value> {
        let mut alerts = Vec::new();
        child::wait_until("all alerts are evaluated", || {
            let response = get(self.address, "/api/v1/rules?type=alert");
            let response: Value = serde_json::from_slice(&response).unwrap();
            let groups = response["data"]["groups"].as_array().unwrap().iter();
            alerts = groups
                .flat_map(|group| group["rules"].as_array().unwrap().clone())
                .collect();
            alerts.iter().all(|alert| alert["health"] != "unknown")
        });
        alerts
    }

    /// Waits until an expression has a value.
    fn wait_for(&self, expression: &str) -> Vec<f64> {
        let mut values = Vec::new();
        child::wait_until(expression, || {
            values = self.query(expression);
            !values.is_empty()
        });
        values
    }
}

#[test]
fn prometheus_scrapes_the_metrics_and_evaluates_the_dashboard_and_the_alerts() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    // So that it does not lower its rate.
    let host = Host::start("max_cpu: 100\nevents: [cpu, wall]");
    let server = Server::start(host.address());
    assert_eq!(server.wait_for("up == 1"), [1.0]);
    wait_for_cpu(&busy, SECOND);

    let rate = f64::from(u32::try_from(RATE).unwrap());
    assert_eq!(server.query("profiling_agent_sampling_rate_hertz"), [rate]);
    assert_eq!(server.query("count(profiling_agent_build_info)"), [1.0]);
    // A window and its export, and two scrapes of each counter.
    for counter in [
        "profiling_agent_samples_total",
        "profiling_agent_profile_samples_total",
        "profiling_agent_event_samples_total{event='wall'}",
        "profiling_agent_export_delivered_total{exporter='local'}",
    ] {
        server.wait_for(&format!("{counter} > 0 and changes({counter}[1m]) > 0"));
    }
    let expressions = dashboard::expressions();
    assert!(expressions.len() >= 60, "{expressions:?}");
    for expression in expressions {
        let query = expression
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*");
        assert!(!query.contains('$'), "{query}");
        let series = server.series(&query);
        if dashboard::is_sometimes_empty(&expression) {
            continue;
        }
        assert!(!series.is_empty(), "{query}");
        for label in dashboard::labels(&expression) {
            for one in &series {
                assert!(one["metric"][label].is_string(), "{query}: {one}");
            }
        }
    }
    let alerts = server.alerts();
    assert!(alerts.len() >= 10, "{alerts:?}");
    for alert in alerts {
        assert_eq!(alert["health"], "ok", "{alert}");
        assert_ne!(alert["state"], "firing", "{alert}");
    }
    host.stop();
}

#[test]
fn promtool_accepts_the_metrics() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    let metrics = host.get("/metrics");
    host.stop();
    let mut tool = child::start(
        Command::new(programs().tool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    tool.stdin.take().unwrap().write_all(&metrics).unwrap();
    let output = tool.wait_with_output().unwrap();
    let messages = [output.stdout, output.stderr].concat();
    assert_eq!(String::from_utf8(messages).unwrap(), "");
    assert!(output.status.success());
}
