//! A real Prometheus that asks an agent for its metrics, and is asked what the dashboard asks it.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use test_support::child;
use xtask::reference_tools::{self, Prometheus};

use super::{
    dashboard,
    host::{Host, RATE, SECOND, ask, free_address, get, service, wait_for_cpu},
    machine,
    target::{Killed, mortal},
};

fn programs() -> Prometheus {
    reference_tools::prometheus().unwrap_or_else(|error| panic!("{error:#}"))
}

/// A server that asks one agent each second.
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
            "global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: agent, static_configs: [{{targets: ['{agent}']}}]}}]
"
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
        child::wait_until("it is ready", || ask(address, "/-/ready").0 == "200");
        Self {
            address,
            _process: process,
            _folder: folder,
        }
    }

    /// The values of an expression, which must be one.
    fn ask(&self, expression: &str) -> Vec<f64> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            write!(path, "%{byte:02x}").unwrap();
        }
        let answer: Value = serde_json::from_slice(&get(self.address, &path)).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let values = answer["data"]["result"].as_array().unwrap().iter();
        values
            .map(|one| one["value"][1].as_str().unwrap().parse().unwrap())
            .collect()
    }

    /// Waits until an expression has a value.
    fn wait_for(&self, expression: &str) -> Vec<f64> {
        let mut values = Vec::new();
        child::wait_until(expression, || {
            values = self.ask(expression);
            !values.is_empty()
        });
        values
    }
}

#[test]
fn prometheus_takes_the_metrics_and_the_dashboard_shows_them() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    // That it keeps its rate.
    let host = Host::start("max_cpu: 100");
    let server = Server::start(host.address());
    assert_eq!(server.wait_for("up == 1"), [1.0]);
    wait_for_cpu(&busy, SECOND);

    let rate = f64::from(u32::try_from(RATE).unwrap());
    assert_eq!(server.ask("profiling_agent_sampling_rate_hertz"), [rate]);
    assert_eq!(server.ask("count(profiling_agent_build_info)"), [1.0]);
    // A window and its delivery, and two looks at them.
    for counted in [
        "profiling_agent_samples_total",
        "profiling_agent_profile_samples_total",
        "profiling_agent_export_delivered_total{exporter='local'}",
    ] {
        server.wait_for(&format!("{counted} > 0 and changes({counted}[1m]) > 0"));
    }
    let expressions = dashboard::expressions();
    assert!(expressions.len() >= 20, "{expressions:?}");
    for expression in expressions {
        let asked = expression
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*");
        assert!(!asked.contains('$'), "{asked}");
        let values = server.ask(&asked);
        assert!(
            !values.is_empty() || dashboard::is_sometimes_empty(&expression),
            "{asked}"
        );
    }
    host.stop();
}

#[test]
fn the_tool_of_prometheus_finds_nothing_wrong_with_the_metrics() {
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
    let said = [output.stdout, output.stderr].concat();
    assert_eq!(String::from_utf8(said).unwrap(), "");
    assert!(output.status.success());
}
