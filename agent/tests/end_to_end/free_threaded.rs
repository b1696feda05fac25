//! Builds without a GIL: threads that are stopped together, and critical sections of objects.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    capture::Capture,
    folded::{Folded, Frame, names},
    machine,
    pprof::Sample,
    target::Target,
};

const STOPPED: &str = "[waiting: stop-the-world]";

/// The interpreters that run without a GIL.
fn for_each(check: impl Fn(&Interpreter) + Sync) {
    for name in ["3.13t", "3.14t"] {
        machine::for_each_named(&[name], &check);
    }
}

fn start(interpreter: &Interpreter, what: &str) -> Target {
    Target::start_with(interpreter, "free_threaded", &[what.to_owned()])
}

/// Captures elapsed time, and compares the share that a thread waits for this, of the time of a function of it, with the
/// one for which it stamps that it was blocked.
fn compare(interpreter: &Interpreter, mut target: Target, function: &str, wait: &str) {
    let pid = target.pid().to_string();
    let arguments = "--event wall --idle -d 4 -r 499 -o - --pid";
    let arguments: Vec<_> = arguments.split(' ').chain([&*pid]).collect();
    let profile = Capture::run(&arguments).into_pprof_of("wall");
    target.send_line("");
    let stamps = Stamps::parse(&target.read_line());
    let is_in = |sample: &&Sample, function: &str| {
        let mut frames = sample.thread.stack.iter();
        frames.any(|frame| frame.name == function)
    };
    let of_thread = profile.samples.iter().filter(|it| is_in(it, function));
    let (waiting, other): (Vec<_>, Vec<_>) = of_thread.partition(|it| is_in(it, wait));
    let time = |samples: &[&Sample]| samples.iter().map(|it| it.time).sum::<Duration>();
    let sampled = time(&waiting).as_secs_f64() / time(&[waiting, other].concat()).as_secs_f64();
    let end = profile.start + profile.duration;
    let blocked = stamps.blocked_until(end) - stamps.blocked_until(profile.start);
    let expected = blocked / profile.duration.as_secs_f64();
    println!("{}: {sampled:.4} of {expected:.4}", interpreter.name);
    // Of two thousand passes, a few at a time see the same wait.
    let tolerance = 3.0 * (expected * (1.0 - expected) / 1000.0).sqrt() + 0.01;
    assert!(
        expected > 0.01 && (sampled - expected).abs() < tolerance,
        "{sampled} of {expected} ± {tolerance}"
    );
}

/// Until when a thread was blocked for how many seconds.
struct Stamps(Vec<(f64, f64)>);

impl Stamps {
    fn parse(line: &str) -> Self {
        let numbers: Vec<f64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
        let (pairs, _) = numbers.as_chunks::<2>();
        Self(
            pairs
                .iter()
                .map(|[time, blocked]| (*time, *blocked))
                .collect(),
        )
    }

    fn blocked_until(&self, time: SystemTime) -> f64 {
        let time = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let next = self.0.partition_point(|(at, _)| *at < time);
        let [(before, blocked), (after, later)] = self.0[next - 1..=next] else {
            panic!("no stamps around {time}");
        };
        blocked + (later - blocked) * (time - before) / (after - before)
    }
}

#[test]
fn the_time_in_which_a_thread_is_stopped_is_that_which_it_stamps() {
    let _machine = machine::alone();
    for_each(|interpreter| {
        compare(
            interpreter,
            start(interpreter, "stops"),
            "computes",
            STOPPED,
        );
    });
}

/// Whoever has stopped a thread is known for as long as it is.
#[test]
fn a_thread_that_stops_others_is_blamed_for_it() {
    let _machine = machine::alone();
    for_each(|interpreter| {
        let target = start(interpreter, "stops");
        let folded = Capture::folded(target.pid(), "--event gil -d 4 -r 199");
        let stops =
            |stack: &[Frame]| names(stack).contains(&"[stops: computer]") && has(stack, "collects");
        let (stopped, all) = (folded.count(stops), folded.total());
        println!("{}: {stopped} of {all}", interpreter.name);
        assert!(all > 0 && stopped * 10 >= all * 9, "{folded:?}");

        let pid = target.pid().to_string();
        let summary = Capture::run(&["--pid", &pid, "--event", "gil", "-d", "1", "-o", "-"]);
        let mut lines = summary.messages.lines();
        assert!(
            lines.any(|line| line.ends_with(" s stopped by others")),
            "{}",
            summary.messages
        );

        let capture = Capture::run(&["gil", "--pid", &pid, "-d", "2"]);
        capture.assert_success();
        let table = String::from_utf8(capture.output).unwrap();
        assert!(
            table.contains("; there is no GIL, and threads were stopped by others for "),
            "{table}"
        );
        let place = table.lines().find(|line| line.contains("  collects  "));
        assert!(
            place.is_some_and(|line| line.ends_with(", by collector")),
            "{table}"
        );
    });
}

fn has(stack: &[Frame], function: &str) -> bool {
    names(stack).contains(&function)
}

/// Without a GIL nobody has it: a thread that runs is where samples of CPU time find it.
#[test]
fn time_of_running_is_where_it_was_also_if_the_gil_is_asked_for() {
    let _machine = machine::alone();
    for_each(|interpreter| {
        let target = start(interpreter, "turns");
        let outputs = TempDir::new().unwrap();
        let output = outputs.path().join("a.folded");
        let pid = target.pid().to_string();
        let arguments = "--event wall,gil,gil-held -d 3 --pid";
        let mut arguments: Vec<_> = arguments.split(' ').collect();
        arguments.extend([&*pid, "-o", output.to_str().unwrap()]);
        Capture::run(&arguments).assert_success();
        let text = fs::read_to_string(outputs.path().join("a.wall.folded")).unwrap();
        let folded = Folded::parse(&text);
        let times = ["first", "second"].map(|name| folded.count(|stack| has(stack, name)));
        println!("{}: {times:?}", interpreter.name);
        let all: u64 = times.iter().sum();
        assert!(times.iter().all(|time| time * 3 > all), "{times:?}");
        // Nobody stops it.
        let held = fs::read_to_string(outputs.path().join("a.gil-held.folded")).unwrap();
        assert_eq!(held, "");
    });
}

#[test]
fn a_dump_says_who_has_stopped_a_thread() {
    /// Dumps of a moment in which it is stopped.
    const STOPPED: usize = 10;

    let _machine = machine::alone();
    for_each(|interpreter| {
        let target = start(interpreter, "stops");
        let pid = target.pid().to_string();
        let dump = |option: &str| {
            let mut arguments = vec!["dump", "--pid", &pid];
            arguments.extend((!option.is_empty()).then_some(option));
            let capture = Capture::run(&arguments);
            capture.assert_success();
            String::from_utf8(capture.output).unwrap()
        };
        let thread = |document: &Value, name: &str| {
            let threads = document["processes"][0]["threads"].as_array().unwrap();
            let thread = threads.iter().find(|it| it["name"] == name);
            thread.cloned().unwrap()
        };
        // It is stopped for a third of the time.
        let dumps = (0..100).map(|_| serde_json::from_str(&dump("--json")).unwrap());
        let stopped = dumps.filter(|it| thread(it, "computer")["wait"] == "stop-the-world");
        let stopped: Vec<Value> = stopped.take(STOPPED).collect();
        assert_eq!(stopped.len(), STOPPED);
        let collector = thread(&stopped[0], "collector");
        let holders = stopped
            .iter()
            .map(|it| thread(it, "computer")["gil_holder"].take());
        // One that is to go on, and waits for a processor, has nobody any more who has stopped it.
        let known: Vec<Value> = holders.filter(|it| !it.is_null()).collect();
        assert!(known.len() * 5 >= STOPPED * 4, "{known:?}");
        assert!(known.iter().all(|it| *it == collector["tid"]), "{known:?}");
        let expected = format!(
            "\"computer\": stopped by {} \"collector\" (stop-the-world)",
            collector["tid"]
        );
        assert!((0..100).any(|_| dump("").contains(&expected)), "{expected}");
    });
}

/// One that appends to a list waits for its critical section while another one copies it.
#[test]
fn a_critical_section_has_the_name_of_its_object() {
    let _machine = machine::alone();
    for_each(|interpreter| {
        let target = start(interpreter, "sections");
        let folded = Capture::folded(target.pid(), "--event lock --idle -d 4 -r 499");
        let of_list = |stack: &[Frame]| {
            let begin = "[lock: Store.items (critical section of list at 0x";
            stack.last().unwrap().name.starts_with(begin)
        };
        let waits = folded.count(|stack| has(stack, "appends"));
        let named = folded.count(|stack| has(stack, "appends") && of_list(stack));
        assert!(waits > 0 && named * 10 >= waits * 9, "{folded:?}");
        compare(interpreter, target, "appends", "[waiting: lock]");
    });
}
