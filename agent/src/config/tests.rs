mod example;
mod refused;

use std::{fs, time::Duration};

use super::{Config, Error, KEYS, LogFormat, Sources};
use crate::{
    export::{Authentication, DestinationConfig, PprofNames, SecretSource},
    formats::FunctionNames,
    profile::TypeNaming,
    targets::kubernetes::{By, CA_FILE, TOKEN_FILE},
};

fn sources(text: &str) -> (tempfile::NamedTempFile, Sources) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let sources = Sources {
        file: Some(file.path().to_owned()),
        folder: "/var/lib/agent".into(),
        socket: Some("/run/agent/agent.sock".into()),
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
fn an_empty_configuration_is_valid() {
    for text in ["", "# nothing\n", "{}"] {
        let config = read(text).unwrap();
        assert_eq!((config.rate, config.window), (19, Duration::from_secs(15)));
        let http = &config.http_server;
        assert_eq!(http.address, Some("127.0.0.1:7147".parse().unwrap()));
        assert_eq!((http.hosts.len(), &http.token_file), (0, &None));
        let socket = http.socket.as_ref().unwrap();
        assert_eq!(socket.path.to_str(), Some("/run/agent/agent.sock"));
        assert!(socket.is_default);
        assert!(config.native);
        let [local] = &config.exporters[..] else {
            panic!("{:?}", config.exporters);
        };
        let DestinationConfig::File(folder) = &local.destination else {
            panic!("{local:?}");
        };
        assert_eq!(folder.folder.to_str(), Some("/var/lib/agent"));
    }
}

#[test]
fn flags_override_variables_and_variables_the_file() {
    let (_file, mut sources) = sources("rate: 23\nwindow: 30s\nlog_format: json\n");
    sources.variables = vec![
        ("AGENT_RATE".to_owned(), "29".to_owned()),
        ("AGENT_WINDOW".to_owned(), "20".to_owned()),
        // Set by Kubernetes for a service of this name.
        ("AGENT_PORT".to_owned(), "tcp://10.0.0.1:80".to_owned()),
        ("AGENT_LOG_LEVLE".to_owned(), "debug".to_owned()),
    ];
    sources.flags = vec![("rate", "31".to_owned())];
    let config = Config::read(&sources).unwrap();
    assert_eq!(config.rate, 31);
    assert_eq!(config.window, Duration::from_secs(20));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(
        config.warnings,
        [
            "the environment variable AGENT_LOG_LEVLE configures nothing: did you mean AGENT_LOG_LEVEL?"
        ]
    );
}

#[test]
fn every_key_is_a_flag_and_a_variable() {
    // Some keys are about events that are not taken without being asked for.
    let (_file, sources) = sources("events: [cpu, wall]");
    for (key, value) in [
        ("events", "[page-faults, cpu]"),
        ("events", "page-faults,cpu"),
        ("trace_switches", "true"),
        ("rate", "97"),
        ("max_cpu", "2.5"),
        ("max_memory", "100MiB"),
        ("thread_labels", "true"),
        ("window", "1m"),
        ("native", "false"),
        ("idle", "true"),
        ("all_exceptions", "true"),
        ("include", "[{command: 'python*'}]"),
        ("exclude", "[{user: root, unit: cron.service}]"),
        ("labels", "{team: web}"),
        ("per_process", "true"),
        ("relabel_configs", "[{action: labeldrop, regex: host_.*}]"),
        ("command_lines", "true"),
        ("trust_environment", "false"),
        ("node", "1234"),
        ("host_root", "/proc/1/root"),
        ("kubernetes", "{runtime: off}"),
        ("exporters", "{p: {type: parca, url: 'http://parca:7070'}}"),
        ("listen", "[::1]:7148"),
        ("socket", "/srv/agent.sock"),
        ("http_hosts", "[agent.example]"),
        ("http_token_file", "/etc/agent/http-token"),
        ("log_level", "debug"),
        ("log_format", "json"),
        ("shutdown_timeout", "3s"),
    ] {
        let setting = KEYS.iter().find(|setting| setting.name == key).unwrap();
        let with_flag = Sources {
            flags: vec![(setting.name, value.to_owned())],
            ..sources.clone()
        };
        let with_variable = Sources {
            variables: vec![(setting.variable(), value.to_owned())],
            ..sources.clone()
        };
        let unset = format!("{:?}", Config::read(&sources).unwrap());
        let by_flag = format!("{:?}", Config::read(&with_flag).unwrap());
        let by_variable = format!("{:?}", Config::read(&with_variable).unwrap());
        assert_ne!(by_flag, unset, "{key}");
        assert_eq!(by_flag, by_variable, "{key}");
    }
    assert_eq!(KEYS.len(), 29);
}

/// In a pod with the name of its node.
fn in_cluster(text: &str) -> Result<Config, Error> {
    let (_file, mut sources) = sources(text);
    let variables = [
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("NODE_NAME", "worker-1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    sources.variables = variables.into();
    Config::read(&sources)
}

#[test]
fn in_a_cluster_the_default_is_the_api_server() {
    assert_eq!(read("").unwrap().kubernetes.lists, None);
    let config = in_cluster("host_root: /proc/1/root").unwrap();
    assert_eq!(config.labels.node.as_deref(), Some("worker-1"));
    let lists = config.kubernetes.lists.unwrap();
    let node = "worker-1".to_owned();
    assert_eq!(lists.by, By::ApiServer { node });
    assert_eq!(lists.http.url, "https://10.96.0.1:443");
    assert_eq!(lists.http.tls.ca_file.unwrap().to_str(), Some(CA_FILE));
    assert_eq!(
        lists.http.authentication,
        Authentication::Bearer(SecretSource::File(TOKEN_FILE.into()))
    );
    let socket = &config.kubernetes.sockets[0];
    let expected = "/proc/1/root/run/containerd/containerd.sock";
    assert_eq!(socket.to_str(), Some(expected));

    // There is no source without a node, or if the file disables it.
    let mut alone = in_cluster("node: ''").unwrap();
    assert_eq!(alone.kubernetes.lists, None);
    alone = in_cluster("kubernetes: {from: off, runtime: off}").unwrap();
    assert!(!alone.kubernetes.has_source());
    let lists = |text| in_cluster(text).unwrap().kubernetes.lists.unwrap();
    let kubelet = lists("kubernetes: {from: kubelet}");
    assert_eq!(kubelet.by, By::Kubelet);
    assert_eq!(kubelet.http.url, "https://worker-1:10250");
    // Requests to the read-only port have no credentials.
    let open = lists("kubernetes: {from: kubelet, url: 'http://worker-1:10255'}");
    assert_eq!(open.http.authentication, Authentication::None);
}

#[test]
fn ipv6_addresses_have_brackets() {
    let (_file, mut sources) = sources("node: n");
    let host = ("KUBERNETES_SERVICE_HOST".to_owned(), "fd00::1".to_owned());
    sources.variables = vec![host];
    let lists = Config::read(&sources).unwrap().kubernetes.lists.unwrap();
    assert_eq!(lists.http.url, "https://[fd00::1]:443");
}

#[test]
fn every_field_of_an_exporter_is_read() {
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
    spool: {folder: /var/spool/agent, max_bytes: 1GiB}
",
    )
    .unwrap();
    let [grafana] = &config.exporters[..] else {
        panic!("{:?}", config.exporters);
    };
    let DestinationConfig::Pyroscope(pyroscope) = &grafana.destination else {
        panic!("{grafana:?}");
    };
    assert_eq!(pyroscope.tenant.as_deref(), Some("1"));
    assert_eq!(pyroscope.http.request_timeout, Duration::from_secs(5));
    assert!(matches!(
        &pyroscope.http.authentication,
        Authentication::Basic { user, .. } if user == "u"
    ));
    assert_eq!(grafana.spool.as_ref().unwrap().max_bytes, 1 << 30);
    // Headers may be secrets.
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn collectors_get_functions_with_their_module() {
    let names = |kind: &str, names: &str| {
        let to = match kind {
            "file" => "folder: /x",
            _ => "url: 'http://x'",
        };
        let exporter = format!("{{type: {kind}, {to}{names}}}");
        let config = read(&format!("exporters: {{a: {exporter}}}")).unwrap();
        match &config.exporters[0].destination {
            DestinationConfig::File(to) => to.function_names,
            DestinationConfig::Pyroscope(to) => to.function_names,
            DestinationConfig::Parca(to) => to.function_names,
            DestinationConfig::Otlp(to) => to.function_names,
        }
    };
    for (kind, default) in [
        ("file", FunctionNames::Plain),
        ("pyroscope", FunctionNames::Module),
        ("parca", FunctionNames::Module),
        ("otlp", FunctionNames::Module),
    ] {
        assert_eq!(names(kind, ""), default);
        for given in FunctionNames::ALL {
            let written = format!(", function_names: {}", given.name());
            assert_eq!(names(kind, &written), given, "{kind}");
        }
    }
    let config = read("exporters: {a: {type: parca, url: 'http://x'}, b: {type: otlp, url: x}}");
    let encoded = config.unwrap().batch_options().pprof_names;
    let names = PprofNames {
        functions: FunctionNames::Module,
        types: TypeNaming::Parca,
    };
    assert_eq!(encoded, [names].into());
}

#[test]
fn switches_are_traced_where_there_are_waits() {
    assert!(
        read("trace_switches: true")
            .unwrap_err()
            .to_string()
            .contains("waits")
    );
    let config = read("{events: [cpu, wall], trace_switches: true}").unwrap();
    assert!(config.trace_switches);
}
