//! No stack is impossible, and one that is not proved is not shown.

use std::{env, fs, process::Command};

use serde_json::Value;
use xtask::interpreters::Interpreter;

use super::output::{frames, run, threads_of};
use crate::{
    capture::{Capture, Running},
    greenlets, machine,
    source::Source,
    target::{Target, mortal, workload_path},
};

/// Dumps of a process whose stacks change all the time, unless the variable [`DUMPS_VARIABLE`] has another number.
const DUMPS: usize = 400;
const DUMPS_VARIABLE: &str = "AGENT_DUMPS";

/// Dumps that have a command each, and most dumps of one of the other commands.
const ALONE: usize = 10;
const MOST_AT_ONCE: usize = 1000;

/// How many dumps are judged of a process.
fn dumps() -> usize {
    match env::var(DUMPS_VARIABLE) {
        Ok(number) => number
            .parse()
            .unwrap_or_else(|error| panic!("{DUMPS_VARIABLE}={number}: {error}")),
        Err(_) => DUMPS,
    }
}

/// Two processors that this process may use.
fn processors() -> [String; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let numbers: Vec<_> = list.trim().split([',', '-']).collect();
    assert!(numbers.len() > 1, "there is one processor: {list}");
    [numbers[0], numbers[numbers.len() - 1]].map(str::to_owned)
}

/// A workload that has a processor for itself and gives it up to no ordinary thread, so that a thread that computes
/// runs.
fn start_on_own_processor(interpreter: &Interpreter, workload: &str) -> Target {
    let [_, own] = processors();
    let mut command = mortal("taskset");
    command
        .args(["-c", &own, "chrt", "--fifo", "1"])
        .arg(&interpreter.path)
        .args(["-E", "-s", "-B"])
        .arg(workload_path(workload));
    Target::from_command(command)
}

/// A dump on another processor.
fn run_on_other_processor(pid: u32, options: &str) -> Capture {
    let [other, _] = processors();
    let mut command = Command::new("taskset");
    command
        .args(["-c", &other, env!("CARGO_BIN_EXE_agent"), "dump", "--pid"])
        .arg(pid.to_string())
        .args(options.split_whitespace());
    let capture = Running::from_command(command).finish();
    capture.assert_success();
    capture
}

#[test]
fn a_thread_that_was_not_proved_says_so_and_has_no_frames() {
    let _machine = machine::alone();
    let target = start_on_own_processor(machine::one_interpreter(), "busy");
    let dump = |options: &str| run_on_other_processor(target.pid(), options).output;
    // It runs, and there is no time to sample it.
    let unproved = (0..20).find_map(|_| {
        let whole = String::from_utf8(dump("--timeout 1ms")).unwrap();
        let is_unproved = whole.contains("no stack was proved in ");
        is_unproved.then_some(whole)
    });
    let whole = unproved.unwrap();
    assert!(
        whole.contains("1 thread, 1 without a proved stack"),
        "{whole}"
    );
    assert!(whole.contains("last seen running"), "{whole}");
    assert!(
        !whole.lines().any(|line| line.starts_with("    ")),
        "{whole}"
    );
    for (options, is_proved) in [("--timeout 1ms", None), ("--timeout 10s", Some(true))] {
        let document: Value = serde_json::from_slice(&dump(&format!("--json {options}"))).unwrap();
        let thread = &threads_of(&document, target.pid())[0];
        let has_frames = !thread["frames"].is_null();
        assert_eq!(has_frames, !thread["taken"].is_null(), "{thread:#}");
        assert!(is_proved.is_none_or(|it| it == has_frames), "{thread:#}");
    }
}

/// Threads that run for some microseconds and wait for some microseconds.
#[test]
fn no_stack_is_impossible_of_threads_that_wait_shortly() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "short_waits");
        let tally = judged(interpreter, "short_waits", &target, dumps(), run);
        println!("{}: {tally:?}", interpreter.name);
        tally.assert_mostly_proved();
    });
}

/// A thread that calls functions of a microsecond, and shares its processor with the dump for as long as that reads it.
#[test]
fn no_stack_is_impossible_of_a_thread_whose_processor_is_taken() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn(|interpreter| {
        let target = Target::start(interpreter, "short_calls");
        let tally = judged(interpreter, "short_calls", &target, dumps(), run);
        println!("{}: {tally:?}", interpreter.name);
        tally.assert_mostly_proved();
        // Without a sample, for which a program has to be loaded.
        assert!(tally.running * 4 >= tally.threads, "{tally:?}");
        assert!(tally.sampled * 2 <= tally.threads, "{tally:?}");
    });
}

/// The same of one that has its processor for itself.
#[test]
fn no_stack_is_impossible_of_a_thread_that_runs() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn(|interpreter| {
        let target = start_on_own_processor(interpreter, "short_calls");
        let run = run_on_other_processor;
        let tally = judged(interpreter, "short_calls", &target, dumps(), run);
        println!("{}: {tally:?}", interpreter.name);
        tally.assert_mostly_proved();
        assert!(tally.sampled * 10 >= tally.threads, "{tally:?}");
    });
}

/// Greenlets that take turns in threads that run for some microseconds and wait for some microseconds.
#[test]
fn no_stack_is_impossible_of_greenlets() {
    let _machine = machine::alone();
    machine::for_some_named(
        &greenlets::INTERPRETERS,
        &greenlets::FEW_INTERPRETERS,
        |interpreter| {
            let libraries = greenlets::libraries(interpreter);
            let environment = greenlets::environment(&libraries);
            let target = Target::start_in(interpreter, "switched_calls", &[], &environment);
            let tally = judged(interpreter, "switched_calls", &target, dumps(), run);
            println!("{}: {tally:?}", interpreter.name);
            tally.assert_mostly_proved();
        },
    );
}

/// What dumps had.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) threads: usize,
    pub(super) proved: usize,
    /// Those that ran.
    running: usize,
    /// Those that were sampled while they ran.
    pub(super) sampled: usize,
    incomplete: usize,
}

impl Tally {
    pub(super) fn assert_mostly_proved(&self) {
        assert!(self.proved * 10 >= self.threads * 9, "{self:?}");
        assert!(self.incomplete * 10 <= self.threads, "{self:?}");
    }
}

/// Asserts that each stack of some dumps of a workload is one of the calls that its source declares; `dump` takes them of a
/// process with these options.
pub(super) fn judged(
    interpreter: &Interpreter,
    workload: &str,
    target: &Target,
    dumps: usize,
    dump: impl Fn(u32, &str) -> Capture,
) -> Tally {
    let source = Source::of(workload);
    let calls = source.calls(interpreter);
    let is_legal = |thread: &Value| {
        let of = |frame: &Value| source.has(frame["file"].as_str().unwrap_or(""));
        let own: Vec<_> = frames(thread).iter().filter(|it| of(it)).collect();
        let mut pairs = own.windows(2);
        // Leaf first.
        !own.is_empty()
            && pairs.all(|pair| {
                let line = u32::try_from(pair[1]["line"].as_u64().unwrap_or(0)).unwrap();
                let (inner, outer) = (&pair[0]["function"], &pair[1]["function"]);
                calls.contains(&(outer.as_str().unwrap(), line, inner.as_str().unwrap()))
            })
    };
    let threads_of_some = |begin: usize| {
        let most = if begin < ALONE { 1 } else { MOST_AT_ONCE };
        let number = most.min(dumps - begin);
        let options = format!("--json --repeat {number} --interval 1us");
        let output = dump(target.pid(), &options).output;
        let documents = serde_json::Deserializer::from_slice(&output).into_iter();
        let threads = documents.map(|document| threads_of(&document.unwrap(), target.pid()));
        let threads: Vec<_> = threads.collect();
        assert_eq!(threads.len(), number);
        threads.into_iter().flatten()
    };
    let mut tally = Tally::default();
    let begins = (0..ALONE).chain((ALONE..dumps).step_by(MOST_AT_ONCE));
    for thread in begins.flat_map(threads_of_some) {
        let is_proved = !thread["taken"].is_null();
        let is_incomplete = frames(&thread).iter().any(|it| it["kind"] == "marker");
        tally.threads += 1;
        tally.proved += usize::from(is_proved);
        tally.running += usize::from(thread["state"] == "running");
        tally.sampled += usize::from(thread["taken"] == "sampled");
        tally.incomplete += usize::from(is_incomplete);
        assert!(
            !is_proved || is_incomplete || is_legal(&thread),
            "{thread:#}"
        );
    }
    tally
}
