//! A real OpenTelemetry Collector, which forwards the profiles that it has decoded.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::SocketAddr,
};

use collector_doubles::otlp::{request, strict_behind_another};
use tempfile::TempDir;
use test_support::control_groups::Groups;
use xtask::reference_tools;

use super::{
    host::{Host, PROFILES, SECOND, free_address, service, wait_for_cpu},
    machine,
    source::Source,
    strict::Strict,
    target::{Killed, mortal},
    whole::{self, CompleteProfile, Kind},
};

/// The container that the workload is in, as Docker calls its control group.
const CONTAINER: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";

/// A collector with a receiver for each protocol. It forwards each request before it responds, so
/// that an error of forwarding is the response to the agent.
struct Collector {
    grpc: SocketAddr,
    http: SocketAddr,
    _process: Killed,
    _folder: TempDir,
}

impl Collector {
    /// Starts one, and waits until it accepts connections for gRPC and HTTP.
    fn start(from_grpc: &Strict, from_http: &Strict) -> Self {
        let folder = TempDir::new().unwrap();
        let [grpc, http] = [free_address(), free_address()];
        let to = |strict: &Strict| {
            format!(
                "{{endpoint: '{}', sending_queue: {{enabled: false}}, \
                 retry_on_failure: {{enabled: false}}}}",
                strict.url()
            )
        };
        let configuration = format!(
            "receivers:
  otlp/grpc: {{protocols: {{grpc: {{endpoint: '{grpc}'}}}}}}
  otlp/http: {{protocols: {{http: {{endpoint: '{http}'}}}}}}
exporters:
  otlp_http/grpc: {}
  otlp_http/http: {}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    profiles/grpc: {{receivers: [otlp/grpc], exporters: [otlp_http/grpc]}}
    profiles/http: {{receivers: [otlp/http], exporters: [otlp_http/http]}}
",
            to(from_grpc),
            to(from_http)
        );
        let [file, log] = ["collector.yaml", "log"].map(|name| folder.path().join(name));
        fs::write(&file, configuration).unwrap();
        let program = reference_tools::collector().unwrap_or_else(|error| panic!("{error:#}"));
        let output = File::create(&log).unwrap();
        let mut command = mortal(program);
        command
            .arg("--config")
            .arg(&file)
            .arg("--feature-gates=service.profilesSupport")
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let mut process = Killed::start(&mut command);
        process.wait_until_reached(&[grpc, http], &log);
        Self {
            grpc,
            http,
            _process: process,
            _folder: folder,
        }
    }
}

#[test]
fn an_opentelemetry_collector_decodes_all_profiles() {
    let _machine = machine::alone();
    let [from_grpc, from_http] = [(); 2].map(|()| Strict::start(strict_behind_another));
    let collector = Collector::start(&from_grpc, &from_http);
    let mut groups = Groups::new("otlp");
    let busy = service("busy", "busy");
    let container = groups.add(&format!("docker-{CONTAINER}.scope"));
    fs::write(container.join("cgroup.procs"), busy.pid().to_string()).unwrap();
    let exporter = |protocol: &str, address| {
        // As in the files.
        let settings = format!("protocol: {protocol}, function_names: plain");
        format!("{protocol}: {{type: otlp, url: 'http://{address}', {settings}}}")
    };
    let host = Host::start_pushing(
        &[
            exporter("grpc", collector.grpc),
            exporter("http", collector.http),
        ],
        // A changed rate changes counts; OpenTelemetry has one period for all of them.
        "labels: {team: shop}\nmax_cpu: 100",
    );
    wait_for_cpu(&busy, SECOND * 3);
    let pid = busy.pid().to_string();
    drop(busy);
    let folder = host.stop();

    let files = whole::files(&folder.path().join(PROFILES), "busy");
    assert!(files.len() >= 2, "{files:?}");
    let expected: BTreeMap<_, _> = files
        .iter()
        .map(|(start, path)| (*start, whole::of_pprof(&fs::read(path).unwrap())))
        .collect();
    for strict in [from_grpc, from_http] {
        let requests: Vec<_> = strict.received().iter().map(request).collect();
        let (profiles, resources) = whole::of_opentelemetry(&requests, "busy");
        assert_eq!(profiles, expected);
        assert_eq!(resources.len(), expected.len());
        for resource in resources {
            for (key, value) in [
                ("container.id", CONTAINER),
                ("process.pid", &pid),
                ("process.runtime.name", "cpython"),
                ("team", "shop"),
            ] {
                assert_eq!(resource[key], value, "{resource:?}");
            }
            assert!(resource["process.executable.name"].starts_with("python"));
            assert!(resource["process.runtime.version"].starts_with('3'));
        }
    }
    expected.values().for_each(assert_busy);
}

/// Asserts that a profile is of the workload `busy`, with the functions of its source.
fn assert_busy(profile: &CompleteProfile) {
    let source = Source::of("busy");
    let total: u64 = profile.stacks.values().sum();
    let in_main = profile.stacks.iter().filter(|(stack, _)| {
        let python: Vec<_> = stack
            .iter()
            .rev()
            .filter(|location| location.kind == Kind::Python)
            .collect();
        let names: Vec<_> = python.iter().map(|it| &*it.lines[0].function).collect();
        names == ["<module>", "main"] && python.iter().all(|it| source.has(&it.lines[0].file))
    });
    let in_main: u64 = in_main.map(|(_, count)| count).sum();
    assert!(in_main * 10 > total * 9, "{profile:?}");
}
