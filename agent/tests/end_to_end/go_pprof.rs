//! The agent's profiles as read by `go tool pprof`.

use std::{collections::BTreeSet, fs};

use tempfile::TempDir;
use test_support::go;
use xtask::{interpreters::Interpreter, tools::go::all};

use super::{
    capture::Capture,
    host::{Host, PROFILES, SECOND, service, wait_for_cpu},
    machine, pprof,
    target::Target,
};

/// The token for profiles over TCP.
const TOKEN: &str = "correct-horse-battery-staple";

/// Fails unless `go tool pprof` reads all samples, Python functions and lines of a profile.
pub(crate) fn assert_read(file: &[u8]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("profile.pb.gz");
    fs::write(&path, file).unwrap();
    for go in all().unwrap() {
        let (report, messages) = go::pprof(&go, folder.path(), raw(path.to_str().unwrap()));
        assert_eq!(messages, "", "go {} warns", go.version());
        assert_same(&report, &pprof::read(file));
    }
}

/// Arguments that print all samples and locations.
fn raw(source: &str) -> [&str; 3] {
    ["-raw", "-symbolize=none", source]
}

/// The counts of the samples in a report, each on a line with two values and a colon.
fn counts(report: &str) -> Vec<u64> {
    let lines = report.lines().skip_while(|line| *line != "Samples:");
    let lines = lines.take_while(|line| *line != "Locations");
    lines
        .filter_map(|line| {
            let (values, _) = line.split_once(": ")?;
            let mut values = values.split_whitespace().map(str::parse);
            match (values.next(), values.next(), values.next()) {
                (Some(Ok(count)), Some(Ok(_)), None) => Some(count),
                _ => None,
            }
        })
        .collect()
}

fn assert_same(report: &str, profile: &pprof::Profile) {
    let counts = counts(report);
    assert_eq!(counts.len(), profile.samples.len(), "{report}");
    assert_eq!(counts.iter().sum::<u64>(), profile.total(), "{report}");
    let samples = profile.samples.iter();
    let frames: BTreeSet<_> = samples.flat_map(|sample| &sample.thread.stack).collect();
    for frame in frames {
        let place = match frame.line {
            Some(line) => format!("{} {}:{line}", frame.name, frame.place),
            None => frame.name.clone(),
        };
        assert!(report.contains(&place), "{place}: {report}");
    }
}

#[test]
fn go_reads_on_demand_and_stored_profiles_of_a_host() {
    let _machine = machine::alone();
    let busy = service("threads", "busy");
    let secret = TempDir::new().unwrap();
    let file = secret.path().join("token");
    fs::write(&file, TOKEN).unwrap();
    let host = Host::start(&format!("http_token_file: {}", file.display()));
    wait_for_cpu(&busy, SECOND);
    assert_read(&host.get("/debug/pprof/profile?seconds=2"));

    let url = format!(
        "http://any:{TOKEN}@{}/debug/pprof/profile?seconds=2&service_name=busy",
        host.address()
    );
    for go in all().unwrap() {
        let folder = TempDir::new().unwrap();
        let (report, messages) = go::pprof(&go, folder.path(), raw(&url));
        assert!(
            messages.contains("Fetching profile over HTTP"),
            "{messages}"
        );
        // It saves the fetched profile there.
        let saved = fs::read_dir(folder.path()).unwrap().flatten().next();
        let profile = pprof::read(&fs::read(saved.unwrap().path()).unwrap());
        assert!(profile.total() > 0);
        assert_same(&report, &profile);
    }

    drop(busy);
    let (stored, messages) = host.stop_with_warnings();
    assert!(!messages.contains("WARN"), "{messages}");
    assert!(!messages.contains(TOKEN), "{messages}");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("report");
    let line = [
        "report",
        "--folder",
        stored.path().join(PROFILES).to_str().unwrap(),
        "--service",
        "busy",
        "--format",
        "pprof",
        "--output",
        file.to_str().unwrap(),
    ]
    .map(str::to_owned);
    Capture::run(&line.each_ref().map(String::as_str)).assert_success();
    assert_read(&fs::read(file).unwrap());
}

#[test]
fn go_reads_short_captures() {
    let _machine = machine::shared();
    machine::for_each_kind_in_turn(|interpreter| check_short_capture(interpreter, &[]));
}

#[test]
fn go_reads_captures_of_any_options() {
    let _machine = machine::shared();
    for option in ["--children", "--no-native"] {
        check_short_capture(machine::one_interpreter(), &[option]);
    }
}

fn check_short_capture(interpreter: &Interpreter, options: &[&str]) {
    let target = Target::start(interpreter, "threads");
    let pid = target.pid().to_string();
    let line = ["--pid", &pid, "-d", "500ms", "-r", "199", "-o", "-"];
    let capture = Capture::run(&[&line, options].concat());
    capture.assert_success();
    assert_read(&capture.output);
}
