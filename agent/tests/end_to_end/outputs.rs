//! Several outputs of one capture.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use super::{
    capture::{Capture, Running},
    folded::Folded,
    machine, pprof,
    target::Target,
};

/// Samples in folded stacks.
fn folded_samples(text: &[u8]) -> u64 {
    let folded = Folded::parse_whole(std::str::from_utf8(text).unwrap());
    folded.count(|_| true)
}

#[test]
fn all_outputs_are_of_the_same_samples() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (pprof, stacks, chart) = (path("a.pb.gz"), path("b.txt"), path("c.trace.json"));
    let lines = path("d.jsonl");
    let pid = target.pid().to_string();
    let outputs = ["-o", &pprof, "-o", &stacks, "-o", &chart, "-o", &lines];
    let line = [
        &["--pid", &pid, "-d", "1s", "-r", "499"][..],
        &outputs,
        &["-o", "-", "-f", "folded"],
    ];
    let capture = Capture::run(&line.concat());
    capture.assert_success();
    let profile = pprof::read_times(&fs::read(&pprof).unwrap(), "cpu");
    let samples: u64 = profile.samples.iter().map(|sample| sample.count).sum();
    assert!(samples > 100, "{samples}");
    assert_eq!(folded_samples(&fs::read(&stacks).unwrap()), samples);
    assert_eq!(folded_samples(&capture.output), samples);
    let lines = fs::read_to_string(&lines).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let counts = lines[1..]
        .iter()
        .map(|line| line["samples"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), samples);
    assert_eq!(lines[0]["samples"], samples);
    let chart: Value = serde_json::from_slice(&fs::read(&chart).unwrap()).unwrap();
    let events = chart["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["ph"] == "B"), "{chart}");
    let written = capture.messages.lines().rev().take(4);
    let written: Vec<_> = written
        .map(|line| line.rsplit_once('/').unwrap().1)
        .collect();
    assert_eq!(written, ["d.jsonl", "c.trace.json", "b.txt", "a.pb.gz"]);
}

#[test]
fn a_capture_that_is_killed_leaves_no_file() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let folder = tempfile::tempdir().unwrap();
    let pid = target.pid().to_string();
    let file = folder.path().join("a.svg");
    let line = ["--pid", &pid, "-d", "1h", "-o", file.to_str().unwrap()];
    let mut capture = Running::start(&line);
    capture.wait_until_sampling();
    capture.signal(Signal::KILL);
    assert!(!capture.finish().status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_output_that_fails_does_not_lose_the_others() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.pb.gz"), folder.path().join("b.svg"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let pid = target.pid().to_string();
    let (one, other) = (text(&first), text(&second));
    let line = ["-o", &one, "-o", "/dev/full", "-o", &other];
    let capture = Capture::run(&[&["--pid", &pid, "-d", "500ms"][..], &line].concat());
    let told: Vec<_> = capture.messages.lines().rev().take(3).collect();
    assert!(
        told[0].starts_with("agent: cannot write '/dev/full'"),
        "{told:?}"
    );
    assert!(
        told[2].contains(&one) && told[1].contains(&other),
        "{told:?}"
    );
    assert_eq!(capture.status.code(), Some(1));
    for path in [&first, &second] {
        assert!(fs::metadata(path).unwrap().len() > 100, "{path:?}");
    }

    // Stored profiles, in the same way.
    let capture = Capture::run(
        &[
            &["report", &one][..],
            &["-o", "-", "-f", "folded", "-o", "/dev/full", "-f", "svg"],
        ]
        .concat(),
    );
    assert_eq!(capture.status.code(), Some(1));
    assert!(capture.messages.contains("agent: cannot write '/dev/full'"));
    assert!(folded_samples(&capture.output) > 10);
}
