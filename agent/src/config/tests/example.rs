//! The configuration that is installed has every key with its default.

use super::{
    super::{Config, HttpServer, KEYS},
    in_cluster, read, refusal,
};
use crate::export::DestinationConfig;

/// The configuration that is installed, in which every key is commented out.
const EXAMPLE: &str = include_str!("../../../../deploy/agent.yaml");

/// The example with all commented keys enabled: prose has exactly one space after its `#`.
fn uncommented() -> String {
    let line = |line: &str| {
        let setting = line.strip_prefix('#')?;
        let text = setting.trim_start_matches(' ');
        let is_prose = text.is_empty() || setting.len() == text.len() + 1;
        (!is_prose).then(|| setting.to_owned())
    };
    EXAMPLE
        .lines()
        .map(|it| line(it).unwrap_or_default() + "\n")
        .collect()
}

#[test]
fn the_unchanged_example_equals_the_defaults() {
    let nothing = format!("{:?}", read("").unwrap());
    assert_eq!(format!("{:?}", read(EXAMPLE).unwrap()), nothing);
}

#[test]
fn the_example_has_every_key_with_its_default() {
    let text = uncommented();
    for key in KEYS {
        let line = format!("\n{}:", key.name);
        assert_eq!(text.matches(&line).count(), 1, "{}", key.name);
    }
    let Config {
        warnings,
        kinds,
        rate,
        wait_rate,
        max_cpu,
        max_memory,
        window,
        native,
        idle,
        exceptions,
        thread_labels,
        selector,
        labels,
        kubernetes,
        exporters,
        http_server,
        log,
        shutdown_timeout,
        trace_switches,
    } = read(&text).unwrap();
    assert!(!trace_switches && warnings.is_empty());
    let default = read("").unwrap();
    assert_eq!((kinds, rate), (default.kinds, default.rate));
    assert!(wait_rate.is_none_or(|it| it.get() == default.rate));
    assert!((max_cpu - default.max_cpu).abs() < f64::EPSILON);
    assert_eq!((window, max_memory), (default.window, default.max_memory));
    assert_eq!(
        (native, idle, thread_labels),
        (default.native, default.idle, default.thread_labels)
    );
    assert_eq!(exceptions, default.exceptions);
    assert_eq!(labels.per_process, default.labels.per_process);
    assert_eq!(labels.command_lines, default.labels.command_lines);
    assert_eq!(labels.trust_environment, default.labels.trust_environment);
    assert_eq!(labels.host_root, default.labels.host_root);
    assert_eq!(log, default.log);
    let (http, default_http) = (&http_server, &default.http_server);
    assert_eq!(http.address, default_http.address);
    let path = |http: &HttpServer| http.socket.as_ref().unwrap().path.clone();
    assert_eq!(path(http), path(default_http));
    assert_eq!(http.hosts.len(), 1);
    assert!(http.token_file.is_some());
    assert_eq!(shutdown_timeout, default.shutdown_timeout);
    // Keys without a default have an example value.
    assert_ne!(format!("{selector:?}"), format!("{:?}", default.selector));
    assert_eq!(labels.fixed.len(), 2);
    assert_ne!(
        format!("{:?}", labels.rules),
        format!("{:?}", default.labels.rules)
    );
    assert!(labels.node.is_some());
    assert_eq!(kubernetes.lists, in_cluster("").unwrap().kubernetes.lists);
    assert_eq!(kubernetes.sockets, default.kubernetes.sockets[..1]);
    let names: Vec<_> = exporters.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["local", "otlp", "parca", "pyroscope"]);
}

#[test]
fn exporters_of_the_example_have_every_field_with_its_default() {
    let text = uncommented();
    for kind in ["file", "pyroscope"] {
        // The error about an unknown field lists all fields.
        let message = refusal(&format!("exporters: {{a: {{type: {kind}, unknown: 1}}}}"));
        let (_, list) = message.split_once("expected ").unwrap();
        let (list, _) = list.split_once(" at ").unwrap_or((list, ""));
        let fields: Vec<_> = list.split('`').skip(1).step_by(2).collect();
        assert!(fields.len() >= 3, "{message}");
        for field in fields {
            assert!(text.contains(&format!("\n    {field}:")), "{kind} {field}");
        }
    }
    let complete = read(&text).unwrap().exporters;
    let plain = "exporters:
  local: {type: file, folder: /var/lib/agent/profiles}
  pyroscope: {type: pyroscope, url: 'https://pyroscope.example:4040', spool: {folder: /x}}";
    let plain = read(plain).unwrap().exporters;
    assert_eq!(complete[0], plain[0]);
    let (complete, plain) = (&complete[3], &plain[1]);
    assert_eq!(
        (&complete.queue, &complete.retry),
        (&plain.queue, &plain.retry)
    );
    let limit = |config: &crate::export::ExporterConfig| config.spool.as_ref().unwrap().max_bytes;
    assert_eq!(limit(complete), limit(plain));
    let (DestinationConfig::Pyroscope(complete), DestinationConfig::Pyroscope(plain)) =
        (&complete.destination, &plain.destination)
    else {
        panic!("{complete:?} {plain:?}");
    };
    assert_eq!(complete.http.connect_timeout, plain.http.connect_timeout);
    assert_eq!(complete.http.request_timeout, plain.http.request_timeout);
}
