//! Elapsed time: what threads wait for, how long, and where.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use test_support::child;

use super::{
    abilities::{has_fair_gil, has_thread_names},
    capture::Capture,
    folded::{Folded, Frame, is_marked, names},
    host::{Host, folded_report},
    machine, pprof,
    source::Source,
    target::{Target, mortal, workload_path},
};

/// The functions of the workload `waiting` that wait, and for what.
const WAITS: [(&str, &str); 6] = [
    ("in_sleep", "[waiting: sleep]"),
    ("in_lock", "[waiting: lock]"),
    ("in_socket", "[waiting: socket]"),
    ("in_pipe", "[waiting: pipe]"),
    ("in_poll", "[waiting: poll]"),
    ("in_child", "[waiting: child]"),
];

/// The state of a thread that runs.
pub(super) const RUNNING: &str = "running";

/// That of one that is stopped.
pub(super) const STOPPED: &str = "[stopped]";

/// Threads of that workload: the main thread sleeps, and one computes.
const THREADS: u64 = WAITS.len() as u64 + 2;

/// Python frames and the state of the thread above them, with nanoseconds.
fn states(folded: &Folded) -> impl Iterator<Item = (&[Frame], Option<&str>, u64)> {
    folded.iter().map(|(stack, time)| {
        let (leaf, frames) = stack.split_last().unwrap();
        let is_state = ["[runnable]", STOPPED].contains(&&*leaf.name);
        if leaf.name.starts_with("[waiting: ") || is_state {
            (frames, Some(&*leaf.name), time)
        } else {
            (stack, None, time)
        }
    })
}

/// The time of stacks with a function, by state.
pub(super) fn time_in(folded: &Folded, function: &str) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for (stack, state, time) in states(folded) {
        if stack.iter().any(|frame| frame.name == function) {
            let state = state.unwrap_or(RUNNING).to_owned();
            *times.entry(state).or_default() += time;
        }
    }
    times
}

#[test]
fn each_thread_has_all_of_the_elapsed_time_and_its_reason() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "waiting");
        let folded = Capture::folded(target.pid(), "--event wall --idle -d 1.5");
        let of_thread = folded.total() / THREADS;
        for (function, reason) in WAITS {
            let times = time_in(&folded, function);
            let expected = [(reason.to_owned(), of_thread)];
            assert_eq!(times, expected.into(), "{function}: {times:?}");
        }
        let computes = time_in(&folded, "computes");
        let known = [RUNNING, "[runnable]", "[waiting: gil]"];
        assert!(
            computes.keys().all(|state| known.contains(&&**state)),
            "{computes:?}"
        );
        // Its first samples have no stack until it is sampled while it runs.
        let time: u64 = computes.values().sum();
        assert!(
            time * 10 > of_thread * 9 && time <= of_thread,
            "{computes:?}"
        );
    });
}

/// Passes over so many threads cost more than they may, so that there are few, each of which stands for a long time: not
/// longer than the capture, and each has all stacks.
#[test]
fn thousands_of_threads_have_the_elapsed_time_and_their_stacks() {
    const SLEEPERS: u32 = 2_000;
    const SECONDS: u32 = 5;
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let arguments = [SLEEPERS.to_string(), "0.5".to_owned()];
    let target = Target::start_with(interpreter, "sleeping_often", &arguments);
    let path = TempDir::new().unwrap();
    let path = path.path().join("wall.jsonl");
    let path = path.to_str().unwrap();
    let pid = target.pid().to_string();
    let seconds = SECONDS.to_string();
    let capture = Capture::run(&["--pid", &pid, "--event", "wall", "-d", &seconds, "-o", path]);
    capture.assert_success();
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.next().unwrap();
    let (mut all, mut without) = (0.0, 0.0);
    for stack in lines {
        let seconds = stack["value"].as_f64().unwrap() / 1e9;
        all += seconds;
        if !stack["frames"].to_string().contains("\"sleeps\"") {
            without += seconds;
        }
    }
    let expected = f64::from(SLEEPERS + 1) * f64::from(SECONDS);
    println!("{all:.1} of {expected:.1} s, {without:.1} s without a stack");
    assert!((all / expected - 1.0).abs() < 0.02, "{all} of {expected}");
    assert!(without < 0.06 * all, "{without} of {all}");
}

/// There is no time to read all of them in the first pass, and no need to read them twice.
#[test]
fn threads_that_rest_have_their_stacks_from_the_start_and_are_read_once() {
    const SLEEPERS: u32 = 3_000;
    let _machine = machine::alone();
    let host = Host::start("events: [wall]");
    let mut command = mortal(&machine::one_interpreter().path);
    command
        .args(["-E", "-s", "-B"])
        .arg(workload_path("sleeping_often"))
        .args([&SLEEPERS.to_string(), "1000"])
        .env("OTEL_SERVICE_NAME", "resting");
    let target = Target::from_command(command);
    let pid = target.pid();
    let counts = || {
        let metrics = host.metrics();
        ["thread_visits", "stack_reads"]
            .map(|name| metrics[&format!("profiling_agent_{name}_total")])
    };
    child::wait_until("all have been visited", || {
        counts()[1] > f64::from(SLEEPERS)
    });
    std::thread::sleep(Duration::from_secs(2));
    let before = counts();
    std::thread::sleep(Duration::from_secs(6));
    let [visits, reads] = [0, 1].map(|index| counts()[index] - before[index]);
    println!("{visits} visits, {reads} stacks read");
    assert!(visits > 2.0 * f64::from(SLEEPERS), "{visits}");
    // Threads of other processes of this host are read too.
    assert!(reads < visits / 10.0, "{reads} of {visits}");
    host.stop();
    let capture = Capture::folded(pid, "--event wall --idle --no-native -d 3");
    let without = capture.count(|stack| !stack.iter().any(|frame| frame.name == "sleeps"));
    assert_eq!(without, 0, "of {}", capture.total());
    let expected = u64::from(SLEEPERS + 1) * 3_000_000_000;
    assert!(
        capture.total().abs_diff(expected) < expected / 100,
        "{} of {expected}",
        capture.total()
    );
}

#[test]
fn time_off_the_cpu_is_elapsed_time_without_that_of_running() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let folded = Capture::folded(target.pid(), "--event off-cpu --idle -d 1.5");
    for (stack, state, _) in states(&folded) {
        assert!(state.is_some(), "{stack:?}");
    }
    let times: Vec<_> = WAITS
        .iter()
        .map(|(function, reason)| time_in(&folded, function).remove(*reason).unwrap())
        .collect();
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

/// Whatever its threads did before, and for as long as it is stopped.
#[test]
fn the_threads_of_a_stopped_process_are_stopped() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    target.stop();
    for options in [
        "--event wall -d 1",
        "--event off-cpu -d 1",
        "--event wall --trace-switches -d 1",
    ] {
        let folded = Capture::folded(target.pid(), options);
        let expected = BTreeMap::from([(STOPPED.to_owned(), folded.total() / THREADS)]);
        for (function, _) in WAITS {
            let times = time_in(&folded, function);
            assert_eq!(times, expected, "{options}: {function}");
        }
        let computes = time_in(&folded, "computes");
        assert!(computes.into_keys().eq([STOPPED]), "{options}: {folded:?}");
    }
    let pid = target.pid().to_string();
    let capture = Capture::run(&["--pid", &pid, "--event", "wall", "-d", "1", "-o", "-"]);
    let waiting = capture
        .messages
        .lines()
        .find(|it| it.starts_with("waiting "));
    assert!(
        waiting.is_some_and(|line| line.contains(": stopped ") && !line.contains(',')),
        "{}",
        capture.messages
    );
    target.signal(Signal::CONT);
    let folded = Capture::folded(target.pid(), "--event wall --idle -d 1");
    for (function, reason) in WAITS {
        let times = time_in(&folded, function);
        assert!(times.into_keys().eq([reason]), "{function}: {folded:?}");
    }
}

/// Ten threads and the main thread compute: one has the GIL at a time.
#[test]
fn threads_that_compute_wait_for_the_gil() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_fair_gil, |interpreter| {
        let target = Target::start(interpreter, "threads");
        let folded = Capture::folded(target.pid(), "--event wall --idle -d 1.5");
        let mut times = BTreeMap::<&str, u64>::new();
        for (_, state, time) in states(&folded) {
            *times.entry(state.unwrap_or(RUNNING)).or_default() += time;
        }
        let total = folded.total();
        let gil = times.get("[waiting: gil]").copied().unwrap_or(0);
        println!("{}: {times:?}", interpreter.name);
        // Ten of eleven wait, or wait for a CPU when it was handed over.
        assert!(
            gil * 100 > total * 70 && gil * 100 < total * 95,
            "{times:?}"
        );
        let lock = times.get("[waiting: lock]").copied().unwrap_or(0);
        assert!(lock * 50 < total, "{times:?}");
    });
}

/// Of threads that compute while others do too, half of the time is that of threads from which the kernel has taken the
/// processor, for a moment or for longer. They are where they were interrupted, not in the interrupt.
#[test]
fn a_thread_without_a_processor_is_in_its_own_function() {
    let _machine = machine::alone();
    let compute = || {
        let mut command = mortal("sh");
        command.args(["-c", "echo ready; while :; do :; done"]);
        Target::from_command(command)
    };
    let processors = thread::available_parallelism().unwrap().get();
    let targets: Vec<_> = (0..2 * processors).map(|_| compute()).collect();
    let folded = Capture::whole(targets[0].pid(), "--event wall -d 3 -r 97");
    let runnable = folded.count(|stack| names(stack).contains(&"[runnable]"));
    let in_kernel = folded.count(|stack| stack.iter().any(Frame::is_kernel));
    println!("{runnable} and {in_kernel} of {}", folded.total());
    assert!(runnable * 10 > folded.total(), "{runnable}");
    assert!(in_kernel * 10 < folded.total(), "{in_kernel}");
    let whole = folded.count(|stack| names(stack).contains(&"__libc_start_main"));
    assert!(whole * 10 > folded.total() * 9, "{whole}");
}

/// Threads that run and wait for some microseconds at a time: their stacks change while they are read, and
/// many cannot be proved. None is wrong.
#[test]
fn stacks_of_threads_that_wait_shortly_are_true() {
    let _machine = machine::alone();
    let source = Source::of("short_waits");
    machine::for_each_representative(|interpreter| {
        let calls = source.calls(interpreter);
        let is_legal = |stack: &[Frame]| {
            let own: Vec<_> = stack.iter().filter(|it| source.has(&it.place)).collect();
            !own.is_empty()
                && own.windows(2).all(|pair| {
                    let call = (&*pair[0].name, pair[0].line.unwrap_or(0), &*pair[1].name);
                    calls.contains(&call)
                })
        };
        let target = Target::start(interpreter, "short_waits");
        let folded = Capture::folded(target.pid(), "--event wall --idle -d 3 -r 997");
        let (mut impossible, mut marked, mut waiting) = (Vec::new(), 0, 0);
        for (stack, state, time) in states(&folded) {
            if is_marked(stack) {
                marked += time;
            } else if !is_legal(stack) {
                impossible.push(stack);
            } else if state == Some("[waiting: sleep]") {
                assert_eq!(stack.last().unwrap().name, "wait", "{stack:?}");
                waiting += time;
            }
        }
        let total = folded.total();
        println!(
            "{}: {marked} incomplete, {waiting} waiting of {total} ns",
            interpreter.name
        );
        assert!(impossible.is_empty(), "{impossible:?}");
        assert!(
            marked * 3 < total * 2,
            "{marked} of {total} ns are incomplete"
        );
        assert!(waiting * 10 > total, "{waiting} of {total} ns are waiting");
    });
}

/// They are read as copies of the pages that a walk needs, among which those of the names are not.
/// Also of those that the C library has made and that enter Python by themselves.
#[test]
fn new_threads_have_their_frames_from_the_start() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "new_threads");
        for option in ["", " --no-native"] {
            let options = format!("--event wall --idle -d 4 -r 99{option}");
            let folded = Capture::folded(target.pid(), &options);
            let (mut all, mut with_frames) = (0, 0);
            for (frames, state, time) in states(&folded) {
                if state == Some("[waiting: sleep]") {
                    let is_known = |frame: &Frame| ["sleeps", "starts"].contains(&&*frame.name);
                    all += time;
                    with_frames += if frames.iter().any(is_known) { time } else { 0 };
                }
            }
            let share = ratio(with_frames, all);
            println!("{}{option}: {share:.4} of {all}", interpreter.name);
            assert!(share > 0.98, "{share}");
        }
    });
}

#[test]
fn threads_that_wait_shortly_have_their_names() {
    let _machine = machine::alone();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        let target = Target::start(interpreter, "short_waits");
        let folded = Capture::folded(target.pid(), "--event wall --idle --threads -d 2 -r 997");
        let names: BTreeSet<_> = folded.iter().map(|(stack, _)| &*stack[0].name).collect();
        let own = ["MainThread", "short-0", "short-1", "short-2"];
        assert_eq!(names, BTreeSet::from(own), "{}", interpreter.name);
    });
}

/// Waits of some milliseconds, one after another, whose length the program itself takes.
#[test]
fn shares_of_waits_are_those_that_the_program_stamps() {
    const FUNCTIONS: [&str; 3] = ["reads", "sleeps", "takes_lock"];
    let _machine = machine::alone();
    machine::for_each_kind_in_turn(|interpreter| {
        let mut target = Target::start(interpreter, "stamped_waits");
        target.send_line("begin");
        target.read_line();
        let folded = Capture::folded(target.pid(), "--event wall --idle -d 4 -r 499");
        target.send_line("end");
        let stamped: BTreeMap<String, f64> = target
            .read_line()
            .split_whitespace()
            .map(|pair| {
                let (name, seconds) = pair.split_once('=').unwrap();
                (name.to_owned(), seconds.parse().unwrap())
            })
            .collect();
        let sampled = FUNCTIONS.map(|name| time_in(&folded, name).values().sum::<u64>());
        let total = sampled.iter().sum::<u64>();
        let all: f64 = stamped.values().sum();
        for (name, time) in FUNCTIONS.iter().zip(sampled) {
            let sampled = ratio(time, total);
            let expected = stamped[*name] / all;
            println!("{}: {name} {sampled:.4} of {expected:.4}", interpreter.name);
            // Four seconds, and not fewer than fifty passes in a second, in each of which the three threads may
            // wait for the one lock: three standard errors of the share, and what the waits themselves vary by.
            let tolerance = 3.0 * (expected * (1.0 - expected) / 200.0).sqrt() + 0.02;
            assert!(
                (sampled - expected).abs() < tolerance,
                "{name}: {sampled} of {expected} ± {tolerance}"
            );
        }
    });
}

/// A share of so many nanoseconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "some seconds, of which a thousandth counts"
)]
pub(super) fn ratio(time: u64, total: u64) -> f64 {
    time as f64 / total as f64
}

/// Each of two events has its own rate, and no less of the time.
#[test]
fn waiting_has_a_rate_of_its_own() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let pid = target.pid().to_string();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("profile.pb.gz");
    let capture = Capture::run(&[
        "-p",
        &pid,
        "-d",
        "2",
        "--event",
        "cpu,wall",
        "--rate",
        "499",
        "--wait-rate",
        "20",
        "-o",
        file.to_str().unwrap(),
    ]);
    capture.assert_success();
    let read = |event: &str, time: &str| {
        let file = folder.path().join(format!("profile.{event}.pb.gz"));
        pprof::read_times(&std::fs::read(file).unwrap(), time)
    };
    let (cpu, wall) = (read("cpu", "cpu"), read("wall", "wall"));
    assert_eq!(cpu.period, Duration::from_secs(1) / 499);
    assert_eq!(wall.period, Duration::from_millis(50));
    let threads: HashSet<u32> = wall.samples.iter().map(|sample| sample.thread.id).collect();
    let time: Duration = wall.samples.iter().map(|sample| sample.time).sum();
    let elapsed = wall.duration * u32::try_from(threads.len()).unwrap();
    let error = time.abs_diff(elapsed).as_secs_f64() / elapsed.as_secs_f64();
    assert!(error < 0.1, "{time:?} of {elapsed:?}");
}

/// Idle threads are left out, and the summary says how much time that is.
#[test]
fn threads_that_wait_for_work_are_left_out() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "idle_workers");
    let pid = target.pid().to_string();
    let options = [
        "--event", "wall", "-d", "1", "--format", "folded", "--output", "-",
    ];
    let mut arguments = vec!["--pid", &pid];
    arguments.extend(options);
    let capture = Capture::run(&arguments);
    let without = Folded::parse(&String::from_utf8(capture.output).unwrap());
    assert_eq!(without.count(|stack| stack[0].name == "[idle]"), 0);
    assert!(capture.messages.contains("idle"), "{}", capture.messages);
    let with = Capture::folded(target.pid(), "--event wall --idle -d 1");
    let idle = with.count(|stack| stack[0].name == "[idle]");
    // Three workers of a pool; the main thread sleeps.
    assert_eq!(idle, with.total() / 4 * 3);
}

#[test]
fn a_host_has_profiles_of_cpu_time_and_of_elapsed_time_at_once() {
    let _machine = machine::alone();
    let host = Host::start("events: [cpu, wall]");
    let interpreter = machine::one_interpreter();
    let mut command = mortal(&interpreter.path);
    command
        .args(["-E", "-s", "-B"])
        .arg(workload_path("waiting"))
        .env("OTEL_SERVICE_NAME", "waiting");
    let target = Target::from_command(command);
    std::thread::sleep(Duration::from_secs(4));
    let folder = host.stop();
    drop(target);
    for event in ["cpu", "wall"] {
        let merged = folded_report(&folder, &format!("--event {event} --service waiting"));
        let profile = Folded::parse(&merged);
        let sleeping = time_in(&profile, "in_sleep");
        let computing = time_in(&profile, "computes");
        assert!(!computing.is_empty(), "{event}: {profile:?}");
        let expected = usize::from(event != "cpu");
        assert_eq!(sleeping.len(), expected, "{event}: {sleeping:?}");
    }
}
