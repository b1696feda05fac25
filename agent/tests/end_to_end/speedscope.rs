//! Import of the agent's profiles by speedscope: its own importers, without its web page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use tempfile::TempDir;
use xtask::{process::capture, reference_tools, tools};

use super::{
    capture::Capture,
    host::{Host, PROFILES, SECOND, service, wait_for_cpu},
    machine,
    pprof::{self, schema, text},
    target::Target,
    whole,
};

/// A profile that it has read.
#[derive(serde::Deserialize)]
struct Read {
    name: String,
    unit: String,
    total: u64,
    frames: Vec<Frame>,
    /// Indices of frames, root first, and CPU time in nanoseconds.
    stacks: Vec<(Vec<usize>, u64)>,
}

#[derive(serde::Deserialize)]
struct Frame {
    name: String,
    file: Option<String>,
    line: Option<i64>,
}

/// A name and a file.
type Function = (String, Option<String>);

/// What it reads in a file with a name.
fn read(name: &str, file: &[u8]) -> Vec<Read> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, file).unwrap();
    let speedscope = reference_tools::speedscope().unwrap_or_else(|error| panic!("{error:#}"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/speedscope.js");
    let output = capture(
        Command::new(tools::node().unwrap())
            .arg(script)
            .args([speedscope, path]),
    )
    .unwrap();
    serde_json::from_str(&output).unwrap()
}

/// Asserts that it reads all stacks of a profile with their CPU time.
fn assert_read(file: &[u8]) {
    let [read] = <[Read; 1]>::try_from(read("profile.pb.gz", file))
        .ok()
        .unwrap();
    let profile = pprof::decode(file);

    assert_eq!(read.unit, "nanoseconds");
    let functions: Vec<Function> = read
        .frames
        .iter()
        .map(|frame| (frame.name.clone(), frame.file.clone()))
        .collect();
    let mut stacks = BTreeMap::<Vec<Function>, u64>::new();
    for (stack, time) in read.stacks {
        let stack = stack.iter().map(|index| functions[*index].clone());
        *stacks.entry(stack.collect()).or_default() += time;
    }
    let expected = expected(&profile);
    assert_eq!(read.total, expected.values().sum::<u64>());
    assert_eq!(stacks, expected);

    // It has one line for each function: one of those in the samples.
    for frame in read.frames {
        let line = frame.line.unwrap_or_default();
        let is_there = profile.location.iter().flat_map(|it| &it.line).any(|it| {
            let function = function(&profile, it.function_id);
            text(&profile, function.name) == frame.name
                && [it.line, function.start_line].contains(&line)
        });
        assert!(is_there, "{}: {line}", frame.name);
    }
}

fn function(profile: &schema::Profile, id: u64) -> &schema::Function {
    let mut functions = profile.function.iter();
    functions.find(|function| function.id == id).unwrap()
}

/// The expected stacks: of inlined functions only the outermost, and no frames without a function,
/// since speedscope does not support others.
fn expected(profile: &schema::Profile) -> BTreeMap<Vec<Function>, u64> {
    let frame = |id: &u64| {
        let location = profile.location.iter().find(|it| it.id == *id).unwrap();
        let function = function(profile, location.line.last()?.function_id);
        let [name, file] = [function.name, function.filename].map(|it| text(profile, it));
        let file = (!file.is_empty()).then(|| file.to_owned());
        Some((name.to_owned(), file))
    };
    let mut stacks = BTreeMap::new();
    for sample in &profile.sample {
        let stack = sample.location_id.iter().rev().filter_map(frame).collect();
        *stacks.entry(stack).or_default() += u64::try_from(sample.value[1]).unwrap();
    }
    stacks
}

#[test]
fn speedscope_reads_captures() {
    let _machine = machine::shared();
    machine::for_each_kind_in_turn(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let pid = target.pid().to_string();
        let capture = Capture::run(&["--pid", &pid, "-d", "500ms", "-r", "199", "-o", "-"]);
        capture.assert_success();
        assert_read(&capture.output);
    });
}

#[test]
fn speedscope_has_the_threads_of_its_own_format() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "threads");
    let pid = target.pid().to_string();
    let threads = target.threads();
    let expected = threads.iter().map(|it| format!("{} ({})", it.name, it.id));
    let expected: BTreeSet<_> = expected.collect();
    for event in ["cpu", "wall"] {
        let line = [
            "--pid",
            &pid,
            "-d",
            "2s",
            "-r",
            "499",
            "-e",
            event,
            "-f",
            "speedscope",
            "-o",
            "-",
        ];
        let capture = Capture::run(&line);
        capture.assert_success();
        let threads = read("profile.speedscope.json", &capture.output);
        let names: BTreeSet<_> = threads.iter().map(|it| it.name.clone()).collect();
        assert_eq!(names, expected, "{event}");
        for thread in threads {
            assert_eq!(thread.unit, "nanoseconds");
            let sum = thread.stacks.iter().map(|(_, time)| time).sum::<u64>();
            assert_eq!(sum, thread.total);
        }
    }
}

#[test]
fn speedscope_reads_profiles_of_a_host() {
    let _machine = machine::alone();
    let busy = service("call_tree", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    assert_read(&host.get("/debug/pprof/profile?seconds=2"));
    drop(busy);
    let folder = host.stop();
    let files = whole::files(&folder.path().join(PROFILES), "busy");
    assert!(!files.is_empty());
    for path in files.values() {
        assert_read(&fs::read(path).unwrap());
    }
}
