//! Dumps that one command takes, one after another.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use test_support::child;

use super::output::{assert_waiting, run, text, threads_of, with_function};
use crate::{capture::Running, machine, target::Target};

#[test]
fn several_dumps_are_taken_one_after_another() {
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "waiting");
    let output = run(target.pid(), "--json --repeat 2 --interval 2s").output;
    let documents = String::from_utf8(output).unwrap();
    let documents = documents
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let documents: Vec<Value> = documents.collect();
    let times = documents.iter().map(|document| {
        assert_waiting(
            interpreter,
            target.pid(),
            &threads_of(document, target.pid()),
        );
        humantime::parse_rfc3339(document["time"].as_str().unwrap()).unwrap()
    });
    let times: Vec<_> = times.collect();
    let [first, second] = *times else {
        panic!("{times:?}");
    };
    // Stacks are taken some time after a dump begins, which is longer for the first one.
    let between = second.duration_since(first).unwrap();
    assert!(between > Duration::from_millis(500), "{times:?}");
    let text = text(target.pid(), "--repeat 2 --interval 1ms");
    assert!(text.starts_with("Dump 1 of 2, 20"), "{text}");
    assert!(text.contains("\n\nDump 2 of 2, 20"), "{text}");
}

#[test]
fn a_signal_ends_repeated_dumps() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let pid = target.pid().to_string();
    let options = "--json --repeat 100 --interval 1h".split(' ');
    let arguments: Vec<_> = ["dump", "--pid", &pid].into_iter().chain(options).collect();
    let running = Running::start(&arguments);
    child::wait_until("there is a dump", || running.output().ends_with('\n'));
    running.signal(Signal::INT);
    let capture = running.finish();
    capture.assert_success();
    assert_eq!(
        String::from_utf8(capture.output).unwrap().lines().count(),
        1
    );
}

/// What is the same for all of them is done once.
#[test]
fn a_hundred_dumps_take_less_than_ten_by_themselves() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let took = |options: &str| {
        let began = Instant::now();
        run(target.pid(), options);
        began.elapsed()
    };
    let by_themselves: Duration = (0..10).map(|_| took("")).sum();
    let together = took("--repeat 100 --interval 1us");
    assert!(together < by_themselves, "{together:?} {by_themselves:?}");
}

/// Nothing of a thread, a process or a program that has ended is in a dump.
#[test]
fn each_dump_shows_what_there_is_then() {
    let _machine = machine::alone();
    let mut target = Target::start(machine::one_interpreter(), "turning");
    let pid = target.pid();
    let id = pid.to_string();
    let options = "--children --json --repeat 100000 --interval 20ms".split(' ');
    let arguments: Vec<_> = ["dump", "--pid", &id].into_iter().chain(options).collect();
    let running = Running::start(&arguments);
    let last = || -> Option<Value> {
        let output = running.output();
        let line = output.rsplit_once('\n')?.0.lines().last()?;
        serde_json::from_str(line).unwrap()
    };
    let with = |document: &Value, function: &str| -> Vec<u32> {
        let processes = document["processes"].as_array().unwrap().iter();
        let ids = processes.map(|it| u32::try_from(it["pid"].as_u64().unwrap()).unwrap());
        ids.filter(|pid| !with_function(&threads_of(document, *pid), function).is_empty())
            .collect()
    };
    let wait_for = |function: &str, is_expected: &dyn Fn(&[u32]) -> bool| {
        child::wait_until(function, || {
            last().is_some_and(|document| is_expected(&with(&document, function)))
        });
    };
    wait_for("<module>", &|pids| pids == [pid]);
    target.send_line("thread");
    wait_for("in_thread", &|pids| pids == [pid]);
    target.send_line("end");
    wait_for("in_thread", &<[u32]>::is_empty);
    target.send_line("fork");
    wait_for("in_child", &|pids| matches!(pids, [child] if *child != pid));
    target.send_line("program");
    wait_for("in_program", &|pids| pids == [pid]);
    // The end of its standard input, and with it the pipe of its child, has closed.
    wait_for("in_child", &<[u32]>::is_empty);
    let document = last().unwrap();
    assert_eq!(threads_of(&document, pid).len(), 1, "{document:#}");
    target.kill();
    let capture = running.finish();
    assert_eq!(capture.status.code(), Some(1), "{}", capture.messages);
    let message = format!("process {pid} ");
    assert!(capture.messages.contains(&message), "{}", capture.messages);
    // Once for each program, not for each dump.
    let lines = capture.messages.lines().count();
    assert!(lines < 10, "{}", capture.messages);
}
