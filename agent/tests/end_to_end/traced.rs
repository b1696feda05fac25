//! Waits of any length where context switches are traced: as long, and where, as the program stamps them itself.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    capture::Capture,
    folded::{Folded, Frame},
    machine,
    program::Program,
    target::Target,
    waiting::{RUNNING, STOPPED, ratio, time_in},
};

/// What each thread of the workload `traced_waits` runs, and its functions that wait.
const THREADS: [(&str, &[&str]); 2] = [
    ("in_turn", &["shortest", "short", "middling"]),
    ("once", &["short_too", "long"]),
];

/// A profile of all of the workload's elapsed time, and the nanoseconds that it stamps, by function.
fn capture(
    interpreter: &Interpreter,
    neighbours: &str,
    event: &str,
) -> (Folded, BTreeMap<String, u64>) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("profile.folded");
    let program = Program::of(interpreter, "traced_waits", &[neighbours]);
    let mut arguments = vec!["--event", event, "--idle", "--trace-switches"];
    arguments.extend(["--output", file.to_str().unwrap(), "--"]);
    arguments.extend(program.0.iter().map(String::as_str));
    let capture = Capture::run(&arguments);
    capture.assert_success();
    let stamps = String::from_utf8(capture.output).unwrap();
    let stamps = stamps.split_whitespace().map(|pair| {
        let (name, nanoseconds) = pair.split_once('=').unwrap();
        (name.to_owned(), nanoseconds.parse().unwrap())
    });
    println!("{}: {}", interpreter.name, capture.messages);
    let text = std::fs::read_to_string(&file).unwrap();
    (Folded::parse(&text), stamps.collect())
}

/// Compares the shares that the functions of each thread have of its waits; one standard error of a share of one half is
/// `error`.
fn compare(name: &str, folded: &Folded, stamps: &BTreeMap<String, u64>, error: f64) {
    for (caller, functions) in THREADS {
        let times: Vec<_> = functions
            .iter()
            .map(|function| time_in(folded, function))
            .collect();
        let sampled: Vec<u64> = times.iter().map(|times| times.values().sum()).collect();
        let total = sampled.iter().sum();
        let all = functions.iter().map(|function| stamps[*function]).sum();
        for (function, time) in functions.iter().zip(sampled) {
            let (share, expected) = (ratio(time, total), ratio(stamps[*function], all));
            // Of five functions and as many interpreters one is beyond three standard errors in each tenth run.
            let tolerance = (4.0 * error * (4.0 * expected * (1.0 - expected)).sqrt()).max(0.02);
            println!("{name}: {function} {share:.4} of {expected:.4} ± {tolerance:.4}");
            assert!(
                (share - expected).abs() < tolerance,
                "{name}: {function}: {share} of {expected} ± {tolerance}"
            );
        }
        // Of each thread, as long as its functions take; the profile may begin and end a pass too late. It runs for
        // some microseconds at a time, of which the samples are few: they may be of what it does in between.
        let running = |times: &BTreeMap<String, u64>| times.get(RUNNING).copied().unwrap_or(0);
        let in_functions: u64 = times.iter().map(running).sum();
        let elsewhere = running(&time_in(folded, caller)) - in_functions;
        let [total, elsewhere, all] =
            [total, elsewhere, all].map(|time| ratio(time, 1_000_000_000));
        let tolerance = 0.02 * all + 0.1;
        println!("{name}: {caller}: {total:.3} of {all:.3} s, and runs for {elsewhere:.3} s");
        assert!(total - all < tolerance, "{name}: {total} of {all} s");
        assert!(
            all - total - elsewhere < tolerance,
            "{name}: {total} of {all} s, and {elsewhere}"
        );
    }
}

#[test]
fn waits_of_fifty_microseconds_and_of_five_seconds_are_as_long_as_they_are() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn(|interpreter| {
        let (folded, stamps) = capture(interpreter, "0", "wall");
        compare(&interpreter.name, &folded, &stamps, 0.01);
        let is_incomplete = |frame: &Frame| frame.name.starts_with("[incomplete");
        let marked = folded.count(|stack| stack.iter().any(is_incomplete));
        assert!(marked * 200 < folded.total(), "{marked}");
    });
}

#[test]
fn so_they_are_beside_threads_and_programs_that_compute() {
    let _machine = machine::alone();
    machine::for_each_named(&["3.12"], |interpreter| {
        let programs: Vec<_> = (0..thread::available_parallelism().unwrap().get())
            .map(|_| Target::start(interpreter, "busy"))
            .collect();
        thread::sleep(Duration::from_millis(200));
        let (folded, stamps) = capture(interpreter, "1", "wall");
        drop(programs);
        compare(&interpreter.name, &folded, &stamps, 0.02);
    });
}

/// Stops a process for some milliseconds again and again, until `is_over`; returns for what share of the time.
fn stop_again_and_again(target: &Target, is_over: &AtomicBool) -> f64 {
    const AT_ONCE: Duration = Duration::from_millis(7);
    // A test that fails does not wait for ever.
    const MOST: Duration = Duration::from_secs(60);
    let begin = Instant::now();
    let mut stopped = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) && begin.elapsed() < MOST {
        target.signal(Signal::STOP);
        let since = Instant::now();
        thread::sleep(AT_ONCE);
        target.signal(Signal::CONT);
        stopped += since.elapsed();
        thread::sleep(AT_ONCE);
    }
    stopped.as_secs_f64() / begin.elapsed().as_secs_f64()
}

/// They are shorter than the first part of a wait, of which all is traced.
#[test]
fn stops_of_some_milliseconds_are_as_long_as_they_are() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let is_over = AtomicBool::new(false);
    let (folded, expected) = thread::scope(|scope| {
        let stopping = scope.spawn(|| stop_again_and_again(&target, &is_over));
        let options = "--event wall --idle --trace-switches -d 3";
        let folded = Capture::folded(target.pid(), options);
        is_over.store(true, Ordering::Relaxed);
        (folded, stopping.join().unwrap())
    });
    for function in ["in_sleep", "in_lock", "in_pipe"] {
        let times = time_in(&folded, function);
        let stopped = times.get(STOPPED).copied().unwrap_or(0);
        let share = ratio(stopped, times.values().sum());
        println!("{function}: {share:.4} of {expected:.4}");
        // On a busy machine a signal takes effect some milliseconds after it was sent.
        assert!((share - expected).abs() < 0.1, "{times:?}");
    }
}
