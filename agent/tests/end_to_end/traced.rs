//! Waits of any length where context switches are traced: as long, and where, as the program stamps them itself.

use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;
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

/// Calls of a function: what the workload says of them.
#[derive(Clone, Copy)]
struct Calls {
    time_ns: u64,
    number: u64,
    /// The squares of their lengths, in square nanoseconds: of that which is traced of each.
    squares: f64,
}

/// A profile of all of the workload's elapsed time.
struct Traced {
    folded: Folded,
    /// The waits that were sampled, by function.
    samples: BTreeMap<String, u64>,
    /// What it says itself, by function.
    calls: BTreeMap<String, Calls>,
}

fn capture(interpreter: &Interpreter, neighbours: &str) -> Traced {
    let folder = TempDir::new().unwrap();
    let path = |name| folder.path().join(name).to_str().unwrap().to_owned();
    let (stacks, lines) = (path("profile.folded"), path("profile.jsonl"));
    let program = Program::of(interpreter, "traced_waits", &[neighbours]);
    let mut arguments = vec!["--event", "wall", "--idle", "--trace-switches"];
    arguments.extend(["--output", &stacks, "--output", &lines, "--"]);
    arguments.extend(program.0.iter().map(String::as_str));
    let capture = Capture::run(&arguments);
    capture.assert_success();
    println!("{}: {}", interpreter.name, capture.messages);
    Traced {
        folded: Folded::parse(&fs::read_to_string(stacks).unwrap()),
        samples: samples_of_waits(&fs::read_to_string(lines).unwrap()),
        calls: calls(&String::from_utf8(capture.output).unwrap()),
    }
}

fn calls(printed: &str) -> BTreeMap<String, Calls> {
    let parse = |line: &str| {
        let (name, numbers) = line.split_once('=').unwrap();
        let mut numbers = numbers.split(',').map(|number| number.parse().unwrap());
        let [time_ns, number, squares] = [(); 3].map(|()| numbers.next().unwrap());
        let calls = Calls {
            time_ns,
            number,
            squares: ratio(squares, 1) * 1e6,
        };
        (name.to_owned(), calls)
    };
    printed.split_whitespace().map(parse).collect()
}

fn samples_of_waits(lines: &str) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    for line in lines.lines().skip(1) {
        let line: Value = serde_json::from_str(line).unwrap();
        if [&Value::Null, &"runnable".into()].contains(&&line["labels"]["wait"]) {
            continue;
        }
        for frame in line["frames"].as_array().unwrap() {
            let function = frame["function"].as_str().unwrap().to_owned();
            *samples.entry(function).or_default() += line["samples"].as_u64().unwrap();
        }
    }
    samples
}

impl Traced {
    /// The variance of the time of a function, in square nanoseconds, each of whose calls has so many waits at most.
    ///
    /// Of a wait that is sampled with the probability 1/n it is n - 1 times the square of its length. Where n is always
    /// the same it is the number of waits over that of those that were sampled; where it changes fourfold, as when both
    /// threads come to the same processor, it is on average up to 25/16 of that (Kantorovich's inequality).
    fn variance(&self, function: &str, waits_of_call: u64) -> f64 {
        let calls = self.calls[function];
        let weight = ratio(calls.number * waits_of_call, self.samples[function]);
        (weight * 25.0 / 16.0 - 1.0).max(0.0) * calls.squares
    }

    /// Compares the shares that the functions of each thread have of its waits.
    fn compare(&self, name: &str, waits_of_call: u64) {
        for (caller, functions) in THREADS {
            self.compare_thread(name, caller, functions, waits_of_call);
        }
    }

    fn compare_thread(&self, name: &str, caller: &str, functions: &[&str], waits_of_call: u64) {
        let times: Vec<_> = functions
            .iter()
            .map(|function| time_in(&self.folded, function))
            .collect();
        let variances: Vec<_> = functions
            .iter()
            .map(|function| self.variance(function, waits_of_call))
            .collect();
        let sampled: Vec<u64> = times.iter().map(|times| times.values().sum()).collect();
        let stamped = functions.iter().map(|name| self.calls[*name].time_ns);
        let stamped: Vec<u64> = stamped.collect();
        let (total, all) = (sampled.iter().sum(), stamped.iter().sum());
        for (number, function) in functions.iter().enumerate() {
            let share = ratio(sampled[number], total);
            let expected = ratio(stamped[number], all);
            let own = (1.0 - expected).powi(2) * variances[number];
            let others = variances.iter().sum::<f64>() - variances[number];
            let error = (own + expected.powi(2) * others).sqrt() / ratio(all, 1);
            println!("{name}: {function} {share:.4} of {expected:.4}, standard error {error:.4}");
            // What says nothing is no test.
            assert!(error < 0.05, "{name}: {function}: {error}");
            // Of five functions and as many interpreters one is beyond three standard errors in each tenth run.
            let tolerance = (4.0 * error).max(0.02);
            assert!(
                (share - expected).abs() < tolerance,
                "{name}: {function}: {share} of {expected} ± {tolerance}"
            );
        }
        // Of each thread, as long as its functions take; the profile may begin and end a pass too late. It runs for
        // some microseconds at a time, of which the samples are few: they may be of what it does in between.
        let running = |times: &BTreeMap<String, u64>| times.get(RUNNING).copied().unwrap_or(0);
        let in_functions: u64 = times.iter().map(running).sum();
        let elsewhere = running(&time_in(&self.folded, caller)) - in_functions;
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
    machine::for_each_kind(|interpreter| {
        let traced = capture(interpreter, "0");
        traced.compare(&interpreter.name, 1);
        let is_incomplete = |frame: &Frame| frame.name.starts_with("[incomplete");
        let marked = traced.folded.count(|stack| stack.iter().any(is_incomplete));
        assert!(marked * 200 < traced.folded.total(), "{marked}");
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
        let traced = capture(interpreter, "1");
        drop(programs);
        // It waits for the GIL too, a switch interval at a time.
        traced.compare(&interpreter.name, 3);
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
