//! What cannot be used is an error that says what to write.

use super::{
    super::{Config, Error, Sources},
    read, refusal,
};

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion() {
    let message = refusal("rate: 19\nwindows: 15s\n");
    assert!(message.contains("(did you mean `window`?)"), "{message}");
    assert!(message.contains("line 2"), "{message}");
    let message = refusal("exporters: {a: {type: file, folder: /x, max_byte: 1MiB}}");
    assert!(message.contains("(did you mean `max_bytes`?)"), "{message}");
    let message = refusal("exclude: [{pid: 1}, {comand: python3}]");
    assert!(message.contains("`exclude[1]"), "{message}");
    assert!(message.contains("(did you mean `command`?)"), "{message}");
    let message = refusal("zzz: 1");
    assert!(
        message.contains("unknown field") && !message.contains("did you mean"),
        "{message}"
    );
}

fn assert_refused(text: &str, part: &str) {
    let message = refusal(text);
    assert!(message.contains(part), "{text}: {message}");
}

#[test]
fn invalid_values_are_rejected() {
    for (text, part) in [
        (
            "events: [cpu, gills]",
            "`events` has `gills`: the events are",
        ),
        ("events: []", "`events` is empty"),
        ("events: ''", "`events` is empty"),
        ("events: cpu,,wall", "`events` has ``: the events are"),
        ("events: cpu wall", "`events` has `cpu wall`"),
        ("events: {cpu: 1}", "a list is written as [a, b] or as a,b"),
        (
            "events: [growth, peak]",
            "`events` has `peak`, which a host does not have: leave it out, and see `growth`,",
        ),
        ("rate: 0", "`rate` is 0: it must be from 1 to 1000"),
        (
            "wait_rate: 0",
            "`wait_rate` is 0: it must be from 1 to 1000",
        ),
        ("rate: many", "expected u32"),
        ("max_cpu: 0", "it must be a percentage up to 100"),
        ("max_cpu: .nan", "it must be a percentage up to 100"),
        ("max_memory: much", "written as 256MiB"),
        ("window: 10ms", "`window` must be from 1s to 1h"),
        ("window: soon", "written as 15s"),
        ("listen: nowhere", "`listen` is `nowhere`"),
        ("labels: {a-b: c}", "`labels` has `a-b`"),
        ("socket: agent.sock", "`socket` is `agent.sock`"),
        ("http_hosts: ['a:7147']", "`http_hosts` has `a:7147`"),
        (
            "kubernetes: {from: api-server}",
            "`kubernetes` needs `node`",
        ),
        (
            "node: n\nkubernetes: {from: api-server}",
            "needs a `url` outside of a cluster",
        ),
        (
            "kubernetes: {from: kubelet, url: 'ftp://n'}",
            "`url` that cannot be used",
        ),
        ("kubernetes: {form: kubelet}", "(did you mean `from`?)"),
        (
            "relabel_configs: [{action: jump}]",
            "no relabel action `jump`",
        ),
    ] {
        assert_refused(text, part);
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
fn an_invalid_condition_has_its_place() {
    for (text, part) in [
        (
            "include: [{command: python3}, {}]",
            "`include[1]` is empty: it would match every process",
        ),
        (
            "exclude: [{user: nobody-at-all}]",
            "`exclude[0]` has the user `nobody-at-all`, who is not in /etc/passwd: give the number",
        ),
        (
            "exclude: [{cgroup: system.slice}]",
            "`exclude[0]` has the control group `system.slice`, whose path must start with `/`",
        ),
        (
            "include: [{pid: 1}, {command: python3, pid: [2, many]}]",
            "`include[1].pid` cannot be used: invalid type: string \"many\", expected u32",
        ),
        (
            "include: [python3]",
            "`include[0]` cannot be used: invalid type: string \"python3\", expected a condition, as in {command: python3}",
        ),
        (
            "include: [{command: [a, [b]]}]",
            "`include[0].command` cannot be used: invalid type: sequence, expected a string",
        ),
        (
            "include: {command: python3}",
            "`include` cannot be used: invalid type: map, expected a sequence",
        ),
    ] {
        assert_refused(text, part);
    }
}

#[test]
fn invalid_exporters_are_rejected() {
    for (text, part) in [
        (
            "exporters: {a: {type: carrier-pigeon}}",
            "unknown variant `carrier-pigeon`",
        ),
        (
            "exporters: {a: {type: parca, url: 'http://x', tenant: t}}",
            "exporter `a` has tenant, which only exporters of type pyroscope have",
        ),
        (
            "exporters: {a: {type: parca, url: 'http://x', queue: {max_profiles: 0}}}",
            "exporter `a` has a queue with max_profiles: 0, which is full at once: give more, or leave it out",
        ),
        (
            "exporters: {a: {type: parca, url: 'http://x', spool: {folder: /s}}, b: {type: otlp, url: 'http://y', spool: {folder: /s/}}}",
            "exporter `b` has the folder '/s/' for its spool, as exporter `a`: give each one a folder of its own",
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
        assert_refused(text, part);
    }
}
