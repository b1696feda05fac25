//! Export of a running agent to collectors as strict as Pyroscope, Parca and OpenTelemetry.

use std::{collections::BTreeSet, fs, thread};

use collector_doubles::{
    otlp::{request, strict_grpc, strict_http},
    parca::{strict_parca, write_raw},
    pyroscope::{PushRequest, services, strict_pyroscope},
};
use prost::Message as _;
use tempfile::TempDir;

use super::{
    go_pprof::assert_read,
    host::{Host, SECOND, service, wait_for_cpu},
    machine, pprof,
    strict::Strict,
    whole,
};

/// A name with characters that need escapes in a label, a file name and a line of text.
const HOSTILE: &str = "../größe \"x\"\\";

/// More labels than Pyroscope accepts, with values up to its maximum length and longer.
fn labels() -> String {
    let labels: Vec<_> = (0..40)
        .map(|number| format!("l{number}: {}", "é".repeat(1_000 + number)))
        .collect();
    format!("thread_labels: true\nlabels: {{{}}}", labels.join(", "))
}

#[test]
fn collectors_accept_all_profiles_of_a_host() {
    let _machine = machine::alone();
    let pyroscope = Strict::start(strict_pyroscope);
    let parca = Strict::start(strict_parca);
    let grpc = Strict::start(strict_grpc);
    let http = Strict::start(strict_http);
    let busy = service("threads", "busy");
    let hostile = service("call_tree", HOSTILE);
    let exporter = |name: &str, kind: &str, strict: &Strict| {
        format!("{name}: {{type: {kind}, url: '{}'}}", strict.url())
    };
    let written = TempDir::new().unwrap();
    let folder = written.path();
    let host = Host::start_pushing(
        &[
            // Names of functions as collectors get them by default.
            format!(
                "written: {{type: file, folder: {}, function_names: module}}",
                folder.display()
            ),
            exporter("pyroscope", "pyroscope", &pyroscope),
            exporter("parca", "parca", &parca),
            exporter("grpc", "otlp", &grpc),
            exporter("http", "otlp, protocol: http", &http),
        ],
        // A changed rate changes counts; OpenTelemetry has one period for all of them.
        &format!("{}\nmax_cpu: 100", labels()),
    );
    wait_for_cpu(&busy, SECOND * 2);
    wait_for_cpu(&hostile, SECOND);
    drop((busy, hostile));
    // The last window must be exported before the metrics are read.
    thread::sleep(SECOND * 3);
    let metrics = host.metrics();
    for (name, value) in &metrics {
        let is_failure = [
            "profiling_agent_export_dropped_total",
            "profiling_agent_export_failures_total",
        ]
        .iter()
        .any(|failure| name.starts_with(failure));
        assert!(!is_failure || value.abs() < f64::EPSILON, "{name}: {value}");
    }
    drop(host.stop());

    let entries = fs::read_dir(folder).unwrap().flatten();
    let written: BTreeSet<_> = entries
        .map(|entry| fs::read(entry.path()).unwrap())
        .collect();
    let received = pyroscope.received();
    let names: BTreeSet<_> = services(&received).into_iter().collect();
    assert!(
        names.contains("busy") && names.contains(HOSTILE),
        "{names:?}"
    );
    let pushed = received.iter().flat_map(|one| {
        let series = PushRequest::decode(one.body.clone()).unwrap().series;
        series.into_iter().flat_map(|series| series.samples)
    });
    let pushed: BTreeSet<_> = pushed.map(|sample| sample.raw_profile).collect();
    assert!(pushed == written, "Pyroscope and the folder differ");
    let pushed = parca.received().into_iter().flat_map(|one| {
        let series = write_raw(&one.body).series;
        series.into_iter().flat_map(|series| series.samples)
    });
    let pushed: BTreeSet<_> = pushed.map(|sample| sample.raw_profile).collect();
    assert!(pushed == written, "Parca and the folder differ");

    let files = whole::files(folder, "busy");
    for strict in [grpc, http] {
        let requests: Vec<_> = strict.received().iter().map(request).collect();
        let (profiles, _) = whole::of_opentelemetry(&requests, "busy");
        assert!(profiles.keys().eq(files.keys()));
        for (start, path) in &files {
            assert_eq!(profiles[start], whole::of_pprof(&fs::read(path).unwrap()));
        }
        let (profiles, _) = whole::of_opentelemetry(&requests, HOSTILE);
        assert!(!profiles.is_empty());
    }
    let texts = written
        .iter()
        .flat_map(|file| pprof::decode(file).string_table);
    let texts: BTreeSet<_> = texts.collect();
    assert!(texts.iter().any(|text| text.ends_with(".threads.call")));
    assert!(texts.iter().any(|text| text.starts_with("threading.")));
    // The pushed profiles equal the written ones, so it is enough to read those.
    for file in written {
        assert_read(&file);
    }
}
