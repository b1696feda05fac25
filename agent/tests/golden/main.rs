//! Compares all outputs of the agent on recorded sessions, byte for byte: files, requests to
//! collectors, summaries, reports, metrics, help.
//!
//! `data` holds the recordings, which `cargo xtask record-fixtures` renews, `results` the expected
//! outputs. To accept the present ones:
//!
//! ```text
//! AGENT_BLESS=1 cargo test --release -p agent --test golden
//! ```
//!
//! Compressed outputs are compared decompressed, because versions of the compressor differ. The
//! agent's version is replaced by `VERSION`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod payloads;
mod pprof;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use agent::testing::{
    HostReplay,
    commands::Summary,
    config::{Config, Sources},
    daemon::{Usage, classic},
    export::Exporters,
    formats::{EncodeOptions, Format, FunctionNames, encode},
    profile::Profile,
    replay_capture, replay_examination,
};
use collector_doubles::{
    otlp::{strict_grpc, strict_http},
    parca::strict_parca,
    pyroscope::strict_pyroscope,
    rules::gunzip,
    server::{Check, Server},
};
use md5::{Digest as _, Md5};

/// Samples per second of the recorded capture.
const RATE: u32 = 199;

/// Columns of a terminal.
const WIDTH: usize = 100;

#[test]
fn a_capture_is_encoded() {
    let data = folder("data");
    let profile = replay_capture(&data, "capture", RATE);
    assert!(profile.total() > 100);
    let pprof = gunzip(&encoded(&profile, Format::Pprof, false)).unwrap();
    let folded = |threads| text(encoded(&profile, Format::Folded, threads));
    let summary = |width| {
        Summary::new(&profile, EncodeOptions::default())
            .with_width(width)
            .to_string()
    };
    assert_golden(&[
        ("capture.pprof.txt", pprof::dump(&pprof)),
        ("capture.folded", folded(false)),
        ("capture.threads.folded", folded(true)),
        ("capture.svg", text(encoded(&profile, Format::Svg, false))),
        (
            "capture.threads.svg",
            text(encoded(&profile, Format::Svg, true)),
        ),
        (
            "capture.speedscope.json",
            lines(&encoded(&profile, Format::Speedscope, false)),
        ),
        (
            "capture.callgrind",
            text(encoded(&profile, Format::Callgrind, false)),
        ),
        (
            "capture.cpuprofile",
            lines(&encoded(&profile, Format::CpuProfile, false)),
        ),
        ("capture.summary.txt", summary(WIDTH)),
        ("capture.narrow.summary.txt", summary(60)),
        ("doctor.txt", replay_examination(&data, "capture", RATE)),
    ]);
}

#[tokio::test]
async fn a_window_of_a_host_is_delivered() {
    let kept = tempfile::tempdir().unwrap();
    let local = format!("{{type: file, folder: {}}}", kept.path().display());
    let mut exporters = vec![format!("local: {local}")];
    let mut servers = Vec::new();
    for (name, kind, check) in [
        (
            "pyroscope",
            "pyroscope, tenant: team-a",
            strict_pyroscope as Check,
        ),
        ("parca", "parca", strict_parca),
        ("otlp_grpc", "otlp", strict_grpc),
        ("otlp_http", "otlp, protocol: http", strict_http),
    ] {
        let server = Server::start(check).await;
        exporters.push(format!("{name}: {{type: {kind}, url: '{}'}}", server.url()));
        servers.push((name, server));
    }
    let config = Config::read(&Sources {
        file: Some(folder("host.yaml")),
        flags: vec![("exporters", format!("{{{}}}", exporters.join(", ")))],
        ..Sources::default()
    });
    let config = config.unwrap();
    let exporters = Exporters::start(config.exporters.clone()).unwrap();
    let mut host = HostReplay::new(&folder("data"), "host", config);
    let reports = host.end_window();
    assert!(reports.len() > 2);

    let mut results = Vec::new();
    for report in &reports {
        exporters.push(report);
        // Those that wait may be sent at the same time, in any order.
        while exporters
            .status()
            .iter()
            .any(|it| it.counts.queued.memory > 0)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let name = format!("host.{}", report.service().replace(['[', ']'], ""));
        let pprof = gunzip(&report.pprof(FunctionNames::Plain).unwrap()).unwrap();
        let summary = Summary::new(&report.profile, EncodeOptions::default())
            .with_width(WIDTH)
            .to_string();
        results.push((format!("{name}.pprof.txt"), pprof::dump(&pprof)));
        results.push((format!("{name}.summary.txt"), summary));
        results.push((
            format!("{name}.folded"),
            text(encoded(&report.profile, Format::Folded, true)),
        ));
    }
    let statuses = exporters.shut_down(Duration::from_secs(30)).await;
    for (name, server) in &servers {
        let received = server.received();
        assert_eq!(received.len(), reports.len());
        let requests: Vec<_> = received.iter().map(|it| payloads::dump(name, it)).collect();
        results.push((format!("host.{name}.txt"), requests.join("\n")));
    }
    let usage = Usage {
        cpu: Duration::from_millis(1_250),
        resident_bytes: 64 << 20,
    };
    let metrics = without_variable(&host.metrics(usage, statuses));
    results.push(("host.metrics.classic.txt".to_owned(), classic(&metrics)));
    results.push(("host.metrics.txt".to_owned(), metrics));
    results.extend(reported(kept.path()));
    assert_golden(&results);
}

/// The output of `agent report` on a folder.
fn reported(kept: &Path) -> Vec<(String, String)> {
    let report = |arguments: &[&str]| {
        let output = agent(&[&["report", "--folder", kept.to_str().unwrap()], arguments].concat());
        let messages = text(output.stderr);
        assert!(output.status.success(), "{messages}");
        (output.stdout, messages)
    };
    let (list, messages) = report(&[]);
    assert_eq!(messages, "");
    let (folded, messages) = report(&["--output", "-", "--format", "folded", "--threads"]);
    let (pprof, _) = report(&["--output", "-", "--format", "pprof", "--service", "orders"]);
    vec![
        ("report.txt".to_owned(), text(list)),
        ("report.summary.txt".to_owned(), messages),
        ("report.folded".to_owned(), text(folded)),
        (
            "report.orders.pprof.txt".to_owned(),
            pprof::dump(&gunzip(&pprof).unwrap()),
        ),
    ]
}

#[test]
fn help_is_given() {
    let mut results = Vec::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help.short", &["-h"]),
        ("help.run", &["run", "--help"]),
        ("help.record", &["record", "--help"]),
        ("help.report", &["report", "--help"]),
        ("help.top", &["top", "--help"]),
        ("help.doctor", &["doctor", "--help"]),
        ("help.dump", &["dump", "--help"]),
        ("version", &["--version"]),
    ] {
        let output = agent(arguments);
        assert!(output.status.success());
        assert_eq!(text(output.stderr), "");
        results.push((format!("{name}.txt"), text(output.stdout)));
    }
    let wrong = agent(&["--pid", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
    results.push(("usage.txt".to_owned(), text(wrong.stderr)));
    assert_golden(&results);
}

/// Runs the agent.
fn agent(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(arguments).env_clear().output().unwrap()
}

fn encoded(profile: &Profile, format: Format, threads: bool) -> Vec<u8> {
    let options = EncodeOptions {
        threads,
        ..EncodeOptions::default()
    };
    let mut bytes = Vec::new();
    encode(profile, format, options, &mut bytes).unwrap();
    bytes
}

/// JSON with a line for each element of its long lists.
fn lines(json: &[u8]) -> String {
    let json = String::from_utf8_lossy(json);
    json.replace("},{", "},\n{").replace("],[", "],\n[")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Replaces sizes of compressed data, and values of the process that runs the test.
fn without_variable(metrics: &str) -> String {
    let lines = metrics.lines().map(|line| {
        let name = line.split(['{', ' ']).next().unwrap();
        let placeholder = match name {
            "profiling_agent_profile_bytes_total"
            | "profiling_agent_export_delivered_bytes_total" => "SIZE",
            "process_start_time_seconds" => "TIME",
            "process_open_fds" => "COUNT",
            _ => return format!("{line}\n"),
        };
        match line.rsplit_once(' ') {
            Some((start, _)) => format!("{start} {placeholder}\n"),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// The MD5 sum of some bytes in which the agent's version is replaced.
fn md5(bytes: &[u8]) -> String {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut sum = Md5::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(version.len()).position(|it| it == version) {
        sum.update(&rest[..at]);
        sum.update(b"VERSION");
        rest = &rest[at + version.len()..];
    }
    sum.update(rest);
    format!("{:032x}", u128::from_be_bytes(sum.finalize().into()))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Compares outputs with the expected ones; `AGENT_BLESS=1` in the environment writes them.
fn assert_golden(actual: &[(impl AsRef<str>, String)]) {
    let bless = env::var_os("AGENT_BLESS").is_some_and(|value| value == "1");
    let mut different = Vec::new();
    for (name, actual) in actual {
        let name = name.as_ref();
        let path = folder("results").join(name);
        let actual = actual.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        if bless {
            fs::write(&path, &actual).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if actual != expected {
            different.push(format!("{name}: {}", first_difference(&expected, &actual)));
        }
    }
    assert!(
        different.is_empty(),
        "AGENT_BLESS=1 accepts these changes\n{}",
        different.join("\n")
    );
}

/// The first line that differs, as expected and as it is.
fn first_difference(expected: &str, actual: &str) -> String {
    let mut expected = expected.split('\n');
    let mut actual = actual.split('\n');
    for number in 1_usize.. {
        match (expected.next(), actual.next()) {
            (None, None) => break,
            (one, other) if one == other => {}
            (one, other) => return format!("line {number}\n- {one:?}\n+ {other:?}"),
        }
    }
    panic!("no line differs");
}
