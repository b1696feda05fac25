//! Dumps that one command takes, one after another.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Deserializer, Value};
use tempfile::TempDir;
use test_support::child;

use super::output::{assert_waiting, frames, run, text, threads_of, with_function};
use crate::{capture::Running, machine, native::compile_large_file, target::Target};

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
fn thirty_dumps_take_less_than_ten_by_themselves() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let took = |options: &str| {
        let began = Instant::now();
        run(target.pid(), options);
        began.elapsed()
    };
    let by_themselves: Duration = (0..10).map(|_| took("")).sum();
    let together = took("--repeat 30 --interval 1us");
    assert!(together < by_themselves, "{together:?} {by_themselves:?}");
}

/// Nothing of a thread, a process or a program that has ended is in a dump, and all of those that are new.
#[test]
fn each_dump_shows_what_there_is_then() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile_large_file(&directory);
    let mut target = Target::start(machine::one_interpreter(), "turning");
    let pid = target.pid();
    let dumps = Dumps::start(&[pid], "--children --locals");
    dumps.wait_for("<module>", |found| found.pids() == [pid]);

    target.send_line("thread");
    dumps.wait_for("in_thread", |found| found.pids() == [pid]);
    target.send_line("end");
    dumps.wait_for("in_thread", |found| found.pids().is_empty());

    target.send_line(library.to_str().unwrap());
    dumps.wait_for("in_library", |found| {
        let names = found.names();
        names.first().is_some_and(|name| name.contains("pause")) && names.contains(&"rest")
    });

    target.send_line("fork");
    dumps.wait_for("in_child", |found| match &*found.0 {
        [(process, _)] => process["pid"] != pid && process["command_line"].is_string(),
        _ => false,
    });

    target.send_line("program");
    dumps.wait_for("in_program", |found| match &*found.0 {
        [(process, thread)] => {
            let locals = || {
                frames(thread)
                    .iter()
                    .map(|frame| frame["locals"].to_string())
            };
            process["pid"] == pid && locals().any(|it| it.contains("program"))
        }
        _ => false,
    });
    // The new program does not have the pipe that it reads.
    dumps.wait_for("in_child", |found| found.pids().is_empty());
    let document = dumps.last().unwrap();
    assert_eq!(threads_of(&document, pid).len(), 1, "{document:#}");

    target.kill();
    let messages = dumps.failure();
    assert!(messages.contains(&format!("process {pid} ")), "{messages}");
    // Once for each session, not for each dump.
    assert!(messages.lines().count() < 10, "{messages}");
}

#[test]
fn a_process_that_has_ended_is_missed_by_the_next_dump() {
    let _machine = machine::shared();
    let [first, second] = [(); 2].map(|()| Target::start(machine::one_interpreter(), "waiting"));
    let dumps = Dumps::start(&[first.pid(), second.pid()], "");
    dumps.wait_for("in_sleep", |found| found.pids().len() == 2);
    first.kill();
    let messages = dumps.failure();
    let expected = format!("process 1 of 2: process {} ", first.pid());
    assert!(messages.contains(&expected), "{messages}");
}

/// What one session remembers is bounded: another one goes on.
#[test]
fn each_of_many_dumps_of_many_threads_has_all_stacks() {
    let _machine = machine::alone();
    let waiting = 5000;
    let arguments = [waiting.to_string()];
    let target = Target::start_with(machine::one_interpreter(), "many_threads", &arguments);
    let output = run(
        target.pid(),
        "--no-native --json --repeat 12 --interval 1us",
    );
    let documents = Deserializer::from_slice(&output.output).into_iter::<Value>();
    let stacks = documents.map(|document| {
        let threads = threads_of(&document.unwrap(), target.pid());
        with_function(&threads, "wait").len()
    });
    assert_eq!(stacks.collect::<Vec<_>>(), vec![waiting; 12]);
}

/// Dumps that go on until a process ends.
struct Dumps(Running);

/// The threads with some function, each with its process.
struct Found(Vec<(Value, Value)>);

impl Dumps {
    fn start(pids: &[u32], options: &str) -> Self {
        let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
        let pids = pids.join(",");
        let mut arguments = vec!["dump", "--pid", &pids];
        let repeated = "--json --repeat 100000 --interval 20ms";
        arguments.extend(repeated.split(' '));
        arguments.extend(options.split_whitespace());
        Self(Running::start(&arguments))
    }

    /// The last one that is whole.
    fn last(&self) -> Option<Value> {
        let output = self.0.output();
        let line = output.rsplit_once('\n')?.0.lines().last()?;
        Some(serde_json::from_str(line).unwrap())
    }

    /// Waits until the threads with this function are as expected.
    fn wait_for(&self, function: &str, is_expected: impl Fn(Found) -> bool) {
        child::wait_until(function, || {
            let Some(document) = self.last() else {
                return false;
            };
            let processes = document["processes"].as_array().unwrap().iter();
            let found = processes.flat_map(|process| {
                let threads = process["threads"].as_array().unwrap();
                let found = with_function(threads, function).into_iter();
                found.map(|thread| (process.clone(), thread.clone()))
            });
            is_expected(Found(found.collect()))
        });
    }

    /// Its messages when it has failed.
    fn failure(self) -> String {
        let capture = self.0.finish();
        assert_eq!(capture.status.code(), Some(1), "{}", capture.messages);
        capture.messages
    }
}

impl Found {
    fn pids(&self) -> Vec<u32> {
        let pids = self.0.iter().map(|(process, _)| process["pid"].as_u64());
        pids.map(|pid| u32::try_from(pid.unwrap()).unwrap())
            .collect()
    }

    /// The functions of the first thread, the innermost first.
    fn names(&self) -> Vec<&str> {
        let frames = self.0.first().map_or(&[][..], |(_, thread)| frames(thread));
        let names = frames.iter().map(|frame| frame["function"].as_str());
        names.map(Option::unwrap_or_default).collect()
    }
}
