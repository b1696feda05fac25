//! A thread that runs code of several interpreters has a thread state in each; the frames of all of
//! them are its stack, even if some have none.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use agent::testing::{
    process::Process,
    python::{Detector, remote},
};
use agent_common::record::PythonUnwindStatus;
use test_support::child;
use xtask::interpreters;

/// The program of the interpreters; documented there.
const PROGRAM: &str = include_str!("data/subinterpreters.py");

/// The first version with a module for subinterpreters.
const FIRST: (u32, u32) = (3, 8);

/// The functions of the thread, leaf first.
const FRAMES: [&str; 5] = ["innermost", "<module>", "middle", "<module>", "outer"];

/// How long the last call before the thread blocks may take.
const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn the_frames_of_all_interpreters_form_one_stack() {
    for interpreter in interpreters::all().unwrap() {
        if (interpreter.major, interpreter.minor) < FIRST {
            continue;
        }
        let mut child = child::start(
            Command::new(&interpreter.path)
                .args(["-I", "-W", "ignore", "-c", PROGRAM])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let mut waiting = [0];
        let output = child.stdout.as_mut().unwrap();
        output.read_exact(&mut waiting).unwrap();
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        let stack = loop {
            let mut stacks = remote::threads(&process, &python).unwrap();
            assert_eq!(stacks.len(), 1, "{interpreter}");
            let stack = stacks.remove(0);
            if stack.is_attached == Some(false) || Instant::now() > deadline {
                break stack;
            }
        };
        let names: Vec<_> = stack
            .frames
            .iter()
            .filter_map(|frame| Some(frame.function.as_ref()?.name.as_str()))
            .collect();
        println!("{interpreter}: {} states, {names:?}", stack.states.len());
        assert!(stack.states.len() >= 3, "{interpreter}");
        assert_eq!(
            names,
            [&FRAMES[..], &["<module>"]].concat(),
            "{interpreter}"
        );
        assert_eq!(stack.end, PythonUnwindStatus::COMPLETE, "{interpreter}");
        assert_eq!(stack.is_attached, Some(false), "{interpreter}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
