use std::{fs, time::Duration};

use super::{Config, Error, KEYS, LogFormat, Sources};
use crate::export::{Authentication, To};

fn sources(text: &str) -> (tempfile::NamedTempFile, Sources) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let sources = Sources {
        file: Some(file.path().to_owned()),
        folder: "/var/lib/agent".into(),
        ..Sources::default()
    };
    (file, sources)
}

fn read(text: &str) -> Result<Config, Error> {
    let (_file, sources) = sources(text);
    Config::read(&sources)
}

fn refusal(text: &str) -> String {
    let message = read(text).unwrap_err().to_string();
    // Without the name of the temporary file.
    message
        .split_once("': ")
        .map_or(message.clone(), |(_, rest)| rest.to_owned())
}

#[test]
fn nothing_is_needed() {
    for text in ["", "# nothing\n", "{}"] {
        let config = read(text).unwrap();
        assert_eq!((config.rate, config.window), (19, Duration::from_secs(15)));
        assert_eq!(config.listen, Some("127.0.0.1:7070".parse().unwrap()));
        assert!(config.native);
        let [local] = &config.exporters[..] else {
            panic!("{:?}", config.exporters);
        };
        let To::File(folder) = &local.to else {
            panic!("{local:?}");
        };
        assert_eq!(folder.folder.to_str(), Some("/var/lib/agent"));
    }
}

#[test]
fn a_flag_counts_before_a_variable_and_that_before_the_file() {
    let (_file, mut sources) = sources("rate: 23\nwindow: 30s\nlog_format: json\n");
    sources.variables = vec![
        ("AGENT_RATE".to_owned(), "29".to_owned()),
        ("AGENT_WINDOW".to_owned(), "20".to_owned()),
        // What Kubernetes sets for a service of this name.
        ("AGENT_PORT".to_owned(), "tcp://10.0.0.1:80".to_owned()),
    ];
    sources.flags = vec![("rate", "31".to_owned())];
    let config = Config::read(&sources).unwrap();
    assert_eq!(config.rate, 31);
    assert_eq!(config.window, Duration::from_secs(20));
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn every_key_is_a_flag_and_a_variable() {
    for (key, value) in [
        ("rate", "97"),
        ("max_cpu", "2.5"),
        ("threads", "true"),
        ("window", "1m"),
        ("native", "false"),
        ("include", "[{command: 'python*'}]"),
        ("exclude", "[{user: root, unit: cron.service}]"),
        ("labels", "{team: web}"),
        ("per_process", "true"),
        ("relabel_configs", "[{action: labeldrop, regex: host_.*}]"),
        ("command_lines", "true"),
        ("node", "1234"),
        ("host_root", "/proc/1/root"),
        ("exporters", "{p: {type: parca, url: 'http://parca:7070'}}"),
        ("listen", "[::1]:7070"),
        ("log_level", "debug"),
        ("log_format", "json"),
        ("shutdown_timeout", "3s"),
    ] {
        let known = KEYS.iter().find(|known| known.name == key).unwrap();
        let with_flag = Sources {
            flags: vec![(known.name, value.to_owned())],
            ..Sources::default()
        };
        let with_variable = Sources {
            variables: vec![(known.variable(), value.to_owned())],
            ..Sources::default()
        };
        let unset = format!("{:?}", Config::read(&Sources::default()).unwrap());
        let by_flag = format!("{:?}", Config::read(&with_flag).unwrap());
        let by_variable = format!("{:?}", Config::read(&with_variable).unwrap());
        assert_ne!(by_flag, unset, "{key}");
        assert_eq!(by_flag, by_variable, "{key}");
    }
    assert_eq!(KEYS.len(), 18);
}

#[test]
fn a_key_that_is_not_known_is_an_error_that_names_the_nearest() {
    let message = refusal("rate: 19\nwindows: 15s\n");
    assert!(message.contains("(is `window` meant?)"), "{message}");
    assert!(message.contains("line 2"), "{message}");
    let message = refusal("exporters: {a: {type: file, folder: /x, limits: 1MiB}}");
    assert!(message.contains("(is `limit` meant?)"), "{message}");
    let message = refusal("include: [{comand: python3}]");
    assert!(message.contains("(is `command` meant?)"), "{message}");
    let message = refusal("zzz: 1");
    assert!(
        message.contains("unknown field") && !message.contains("meant"),
        "{message}"
    );
}

#[test]
fn what_makes_no_sense_is_told() {
    for (text, part) in [
        ("rate: 0", "`rate` is 0: 1 to 1000"),
        ("rate: many", "expected u32"),
        ("max_cpu: 0", "write a percentage"),
        ("max_cpu: .nan", "write a percentage"),
        ("window: 10ms", "`window` must be from 1s to 1h"),
        ("window: soon", "written as 15s"),
        ("listen: nowhere", "`listen` is `nowhere`"),
        ("labels: {a-b: c}", "`labels` has `a-b`"),
        ("include: [{}]", "empty"),
        (
            "relabel_configs: [{action: jump}]",
            "no relabel action `jump`",
        ),
        (
            "exporters: {a: {type: carrier-pigeon}}",
            "unknown variant `carrier-pigeon`",
        ),
        (
            "exporters: {a: {type: parca, url: 'http://x', tenant: t}}",
            "exporter `a` has tenant, which only exporters of type pyroscope take",
        ),
        (
            "exporters: {a: {type: otlp, url: 'http://x', username: u}}",
            "exporter `a` has username but no password_file",
        ),
        (
            "exporters: {a: {type: otlp, url: 'http://x', cert_file: c}}",
            "exporter `a` has cert_file but no key_file",
        ),
    ] {
        let message = refusal(text);
        assert!(message.contains(part), "{text}: {message}");
    }
    let error = read("rate: [").unwrap_err();
    assert!(matches!(error, Error::Contents { .. }), "{error}");
    let missing = Sources {
        file: Some("/nonexistent/agent.yaml".into()),
        ..Sources::default()
    };
    let error = Config::read(&missing).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/agent.yaml"), "{error}");
}

#[test]
fn a_collector_is_read_whole() {
    let config = read(
        "
exporters:
  grafana:
    type: pyroscope
    url: https://profiles.example/
    tenant: '1'
    username: u
    password_file: /run/secrets/p
    headers: {x-scope: hunter2}
    timeout: 5s
    spool: {folder: /var/spool/agent, limit: 1GiB}
",
    )
    .unwrap();
    let [grafana] = &config.exporters[..] else {
        panic!("{:?}", config.exporters);
    };
    let To::Pyroscope(pyroscope) = &grafana.to else {
        panic!("{grafana:?}");
    };
    assert_eq!(pyroscope.tenant.as_deref(), Some("1"));
    assert_eq!(pyroscope.http.request_timeout, Duration::from_secs(5));
    assert!(matches!(
        &pyroscope.http.authentication,
        Authentication::Basic { user, .. } if user == "u"
    ));
    assert_eq!(grafana.spool.as_ref().unwrap().limit_bytes, 1 << 30);
    // Headers may be secrets.
    assert!(!format!("{config:?}").contains("hunter2"));
}
