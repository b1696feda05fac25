//! The walk returns for every thread exactly the stack that the interpreter reports.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use agent::testing::{
    process::Process,
    python::{Detector, remote},
};
use test_support::{child, scenarios::Scenarios};
use xtask::interpreters;

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("data/scenarios.py");

/// Frames of the deepest stack.
const DEPTH: &str = "10000";

/// Least number of threads, including the main thread.
const LEAST_THREADS: usize = 29;

/// Prints which thread never blocks, and blocks the main thread until the end of the input.
const SPIN: &str = "
import os, threading

def spin():
    while True:
        pass

thread = threading.Thread(target=spin)
thread.daemon = True
thread.start()
os.write(1, ('%d\\n' % thread.ident).encode())
os.read(0, 1)
os._exit(0)
";

/// How long to wait for a thread to hold the GIL.
const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn every_frame_of_every_thread_equals_that_of_the_interpreter() {
    let mut different = 0;
    for interpreter in interpreters::all().unwrap() {
        let scenarios = Scenarios::of(&interpreter.path, PROGRAM, [DEPTH]);
        let process = scenarios.process();
        let python = Detector::default().detect(&process).unwrap();
        assert_eq!(python.version.to_string(), scenarios.version);
        let (stacks, differences) =
            scenarios.settle(|| remote::threads(&process, &python).unwrap());
        let frames: usize = stacks.iter().map(|stack| stack.frames.len()).sum();
        println!(
            "{interpreter}: {} threads, {frames} frames, {} different",
            stacks.len(),
            differences.len()
        );
        for difference in &differences {
            println!("    {difference}");
        }
        assert!(stacks.len() >= LEAST_THREADS);
        different += differences.len();
    }
    assert_eq!(different, 0);
}

#[test]
fn only_the_running_thread_is_attached() {
    for interpreter in interpreters::all().unwrap() {
        let mut child = child::start(
            Command::new(&interpreter.path)
                .args(["-E", "-s", "-c", SPIN])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let spinning: u64 = line.trim_end().parse().unwrap();
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();

        // The main thread has to block first.
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let attached: Vec<_> = remote::threads(&process, &python)
                .unwrap()
                .iter()
                .map(|stack| (stack.thread_id == spinning, stack.is_attached))
                .collect();
            assert_eq!(attached.len(), 2, "{interpreter}");
            if attached
                .iter()
                .all(|(spins, attached)| *attached == Some(*spins))
            {
                break;
            }
            assert!(Instant::now() < deadline, "{interpreter}: {attached:?}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
