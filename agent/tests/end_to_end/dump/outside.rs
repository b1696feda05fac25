//! Dumps without the right to load BPF programs: what is proved is as true, and what is not there says so.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use super::{
    output::{
        WAITS, assert_deadlock, assert_waiting, frames, signal, threads_of, tids, with_function,
    },
    truth::judged,
};
use crate::{
    abilities::{has_fair_gil, has_thread_names},
    capture::{Capture, Running},
    machine,
    target::{Target, mortal, workload_path},
};

/// The capabilities without which no program can be loaded.
const LOADING: &str = "--bounding-set=-bpf,-perfmon,-sys_admin";

/// Options of dumps of a process with a thread that always runs.
const SHORT: &str = "--timeout 300ms";

/// Dumps of a process whose threads begin and end, and of one whose stacks change, all the time.
const DUMPS: usize = 20;

/// Runs a dump without some capabilities.
fn run_without(capabilities: &str, pid: u32, options: &str) -> Capture {
    let mut command = Command::new("setpriv");
    command
        .args([capabilities, "--inh-caps=-all"])
        .args([env!("CARGO_BIN_EXE_agent"), "dump", "--pid"])
        .arg(pid.to_string())
        .args(options.split_whitespace());
    Running::from_command(command).finish()
}

fn run(pid: u32, options: &str) -> Capture {
    let capture = run_without(LOADING, pid, options);
    capture.assert_success();
    capture
}

fn text(pid: u32, options: &str) -> String {
    String::from_utf8(run(pid, options).output).unwrap()
}

fn json(pid: u32, options: &str) -> Value {
    serde_json::from_slice(&run(pid, &format!("--json {options}")).output).unwrap()
}

fn threads(pid: u32, options: &str) -> Vec<Value> {
    threads_of(&json(pid, options), pid)
}

#[test]
fn each_thread_that_waits_has_its_stack() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "waiting");
        let document = json(target.pid(), "");
        let note = document["note"].as_str().unwrap();
        assert!(note.contains("without CAP_BPF, CAP_PERFMON: "), "{note}");
        let threads = threads_of(&document, target.pid());
        assert_waiting(interpreter, target.pid(), &threads);
        for (function, _) in WAITS {
            let [thread] = &*with_function(&threads, function) else {
                panic!("{function}: {threads:#?}");
            };
            assert!(frames(thread).iter().all(|it| it["kind"] == "python"));
        }
    });
}

/// Its name is the kernel's, and nothing is said of what it holds.
#[test]
fn a_thread_that_runs_is_not_given_a_stack() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "busy");
        // With two processors it is seldom without one.
        let unproved = (0..20).find_map(|_| {
            let document = json(target.pid(), SHORT);
            let thread = threads_of(&document, target.pid()).remove(0);
            (thread["taken"].is_null()).then_some(thread)
        });
        let thread = unproved.unwrap();
        assert_eq!(thread["tid"], target.pid());
        assert_eq!(thread["state"], "running");
        for field in ["frames", "holds_gil", "wait", "waiting_ms"] {
            assert_eq!(thread[field], Value::Null, "{thread:#}");
        }
        let whole = text(target.pid(), SHORT);
        assert!(
            whole.contains("\nRead from outside, without CAP_BPF, CAP_PERFMON: "),
            "{whole}"
        );
        if whole.contains("1 without a proved stack") {
            assert!(whole.contains("; last seen running"), "{whole}");
        }
    });
}

#[test]
fn no_stack_is_impossible_of_threads_that_wait_shortly() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "short_waits");
        let dump = |pid, options: &str| run(pid, &format!("{SHORT} {options}"));
        let tally = judged(interpreter, "short_waits", &target, DUMPS, dump);
        println!("{}: {tally:?}", interpreter.name);
        assert_eq!(tally.sampled, 0, "{tally:?}");
        tally.assert_mostly_proved();
    });
}

#[test]
fn a_stopped_process_has_all_its_stacks() {
    let _machine = machine::shared();
    machine::for_each_kind(|interpreter| {
        let target = Target::start(interpreter, "waiting");
        target.stop();
        let document = json(target.pid(), "");
        assert_eq!(document["processes"][0]["stopped"], true);
        let threads = threads_of(&document, target.pid());
        assert!(
            threads.iter().all(|it| it["taken"] == "read"),
            "{threads:#?}"
        );
        assert_eq!(with_function(&threads, "computes").len(), 1);
        signal(target.pid(), Signal::CONT);
    });
}

#[test]
fn waits_have_their_holders_and_deadlocks_are_the_first_line() {
    let _machine = machine::alone();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        let target = Target::start(interpreter, "deadlock");
        let whole = text(target.pid(), "");
        let first = whole.lines().next().unwrap();
        assert!(first.starts_with("Deadlock: "), "{whole}");
        assert!(
            first.contains("waits for Bank.second (RLock at 0x"),
            "{whole}"
        );
        let document = json(target.pid(), "");
        assert_deadlock(interpreter, target.pid(), &document);
    });
    machine::for_each_kind_in_turn_that(has_fair_gil, |interpreter| {
        let target = Target::start(interpreter, "threads");
        let all = tids(target.pid());
        let (mut waiting, mut held) = (0, 0);
        for thread in (0..4).flat_map(|_| threads(target.pid(), SHORT)) {
            if thread["wait"] == "gil" && !thread["taken"].is_null() {
                waiting += 1;
                assert_eq!(thread["holds_gil"], false, "{thread:#}");
                if let Some(holder) = thread["gil_holder"].as_u64() {
                    held += 1;
                    assert!(all.contains(&holder), "{thread:#}");
                    assert_ne!(thread["tid"], holder, "{thread:#}");
                }
            }
        }
        println!("{}: {waiting} wait, {held} with a holder", interpreter.name);
        assert!(waiting > 10 && held * 2 > waiting, "{held} of {waiting}");
    });
}

#[test]
fn variables_tasks_descendants_and_several_processes_are_there_too() {
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "waiting");
    let document = json(
        target.pid(),
        &format!("--children --locals --source {SHORT}"),
    );
    let processes = document["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{document:#}");
    assert_eq!(processes[1]["parent"], target.pid());
    let child = std::slice::from_ref(&processes[1]["threads"][0]);
    assert_eq!(with_function(child, "in_child").len(), 1);
    let waiting = threads_of(&document, target.pid());
    let [thread] = &*with_function(&waiting, "in_pipe") else {
        panic!("{waiting:#?}");
    };
    let frame = frames(thread).iter().find(|it| it["function"] == "in_pipe");
    let frame = frame.unwrap();
    assert_eq!(frame["locals"][0]["name"], "reading", "{frame:#}");
    assert_eq!(frame["source"], "os.read(reading, 1)");
    let other = Target::start(interpreter, "deadlock");
    let both = format!("--pid {} {SHORT}", other.pid());
    let document = json(target.pid(), &both);
    assert_eq!(document["processes"].as_array().unwrap().len(), 2);
    machine::for_each_named(&["3.14-sid"], |interpreter| {
        let target = Target::start_with(interpreter, "tasks", &["all_kinds".to_owned()]);
        let document = json(target.pid(), &format!("--tasks {SHORT}"));
        let tasks = document["processes"][0]["tasks"].as_array().unwrap();
        assert!(!tasks.is_empty(), "{document:#}");
    });
}

/// As in a container: the C library has other ids than `/proc` has for the agent.
#[test]
fn threads_have_their_stacks_in_a_pid_namespace_of_their_own() {
    let _machine = machine::shared();
    machine::for_each_kind(|interpreter| {
        let mut command = mortal("unshare");
        command
            .args(["--pid", "--fork", "--kill-child"])
            .arg(&interpreter.path)
            .args(["-E", "-s", "-B"])
            .arg(workload_path("waiting"));
        let target = Target::from_command(command);
        let path = format!("/proc/{0}/task/{0}/children", target.pid());
        let children = fs::read_to_string(path).unwrap();
        let pid = children.split_whitespace().next().unwrap().parse().unwrap();
        let threads = threads(pid, "");
        for (function, wait) in WAITS {
            let [thread] = &*with_function(&threads, function) else {
                panic!("{function}: {threads:#?}");
            };
            assert_eq!(thread["wait"], wait, "{thread:#}");
            if has_thread_names(interpreter) {
                assert_eq!(thread["name"], function, "{thread:#}");
            }
        }
    });
}

/// What ends, or runs another program, while it is read.
#[test]
fn processes_and_threads_that_end_leave_nothing_that_is_not_theirs() {
    let _machine = machine::alone();
    let program = "
import os, sys, threading, time

def ends_at_once():
    time.sleep(0.001)

def starts():
    while True:
        thread = threading.Thread(target=ends_at_once)
        thread.start()
        thread.join()

threading.Thread(target=starts, daemon=True).start()
if len(sys.argv) == 1:
    print('ready', flush=True)
time.sleep(0.2)
os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2], 'again'])
";
    machine::for_each_named(&["3.12"], |interpreter| {
        let mut command = mortal(&interpreter.path);
        command.args(["-c", program]);
        let target = Target::from_command(command);
        let mut proved = 0;
        for _ in 0..DUMPS {
            let capture = run_without(LOADING, target.pid(), "--json --timeout 200ms");
            if !capture.status.success() {
                // It has just begun to run another program.
                assert_eq!(capture.messages.lines().count(), 1, "{}", capture.messages);
                continue;
            }
            let document: Value = serde_json::from_slice(&capture.output).unwrap();
            for thread in threads_of(&document, target.pid()) {
                let own = frames(&thread).iter().filter(|it| it["file"] == "<string>");
                let own: Vec<_> = own.map(|it| it["function"].as_str().unwrap()).collect();
                let is_legal = matches!(&*own, [] | ["<module>" | "starts" | "ends_at_once"]);
                assert!(is_legal, "{thread:#}");
                proved += usize::from(!own.is_empty());
            }
        }
        assert!(proved > DUMPS / 2, "{proved}");
    });
}

#[test]
fn who_may_not_read_the_process_is_told_what_to_do() {
    let _machine = machine::shared();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "deadlock");
    let capture = run_without("--bounding-set=-all", target.pid(), "");
    assert_eq!(capture.status.code(), Some(1));
    assert_eq!(capture.output, b"");
    assert_eq!(capture.messages.lines().count(), 1, "{}", capture.messages);
    assert!(
        capture.messages.contains("--cap-add SYS_PTRACE"),
        "{}",
        capture.messages
    );
    // One's own process may be read, unless the kernel is told otherwise.
    let mut command = mortal("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(&interpreter.path)
        .args(["-E", "-s", "-B"])
        .arg(workload_path("deadlock"));
    let target = Target::from_command(command);
    let capture = run_without("--bounding-set=-all", target.pid(), "");
    let level = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if level.is_ok_and(|level| level.trim() != "0") {
        assert!(capture.messages.contains("yama"), "{}", capture.messages);
    } else {
        capture.assert_success();
        let output = String::from_utf8(capture.output).unwrap();
        assert!(output.starts_with("Deadlock: "), "{output}");
        assert!(output.contains("CAP_SYS_PTRACE: "), "{output}");
    }
}

#[test]
fn the_doctor_says_that_dumps_work() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "deadlock");
    let report = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command
            .args([capabilities, "--inh-caps=-all"])
            .args([env!("CARGO_BIN_EXE_agent"), "doctor", "--pid"])
            .arg(target.pid().to_string());
        let capture = Running::from_command(command).finish();
        assert_eq!(capture.status.code(), Some(1));
        String::from_utf8(capture.output).unwrap()
    };
    let advice = format!("agent dump --pid {} ", target.pid());
    let with = report(LOADING);
    assert!(with.contains(&advice), "{with}");
    let without = report("--bounding-set=-all");
    assert!(!without.contains(&advice), "{without}");
}

/// Many threads take a bounded time, which is printed.
#[test]
fn a_process_with_many_threads_answers() {
    const LIMIT: Duration = Duration::from_secs(60);

    let _machine = machine::alone();
    let program = "
import threading, sys, time
threading.stack_size(128 << 10)
lock = threading.Lock()
lock.acquire()

def waits():
    lock.acquire()

for _ in range(int(sys.argv[1])):
    threading.Thread(target=waits, daemon=True).start()
time.sleep(0.3)
print('ready', flush=True)
lock.acquire()
";
    for (count, dumps) in [(99, 10), (3000, 1)] {
        let mut command = mortal(&machine::one_interpreter().path);
        command.args(["-c", program, &count.to_string()]);
        let target = Target::from_command(command);
        let mut times: Vec<_> = (0..dumps)
            .map(|_| {
                let begin = Instant::now();
                let found = threads(target.pid(), "--timeout 10s");
                let time = begin.elapsed();
                assert_eq!(found.len(), count + 1);
                let proved = found.iter().filter(|it| it["taken"] == "read");
                assert_eq!(proved.count(), count + 1);
                assert_eq!(with_function(&found, "waits").len(), count);
                time
            })
            .collect();
        times.sort_unstable();
        println!("{} threads: {times:?}", count + 1);
        assert!(times[0] < LIMIT, "{times:?}");
    }
}
