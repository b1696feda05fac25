//! A process whose memory never answers: it holds up a capture of itself for a limited time, and the
//! agent of a host not at all.

use std::{fs, path::PathBuf, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;
use test_support::child;
use xtask::interpreters;

use super::{
    capture::{Capture, Running},
    host::{Host, RATE, SECOND, profiles_in, service, wait_for_cpu},
    machine,
    native::compile,
    target::{Target, mortal},
};

/// The library of an interpreter that has one.
fn library() -> PathBuf {
    let interpreter = interpreters::named("3.12").unwrap();
    let target = Target::start(&interpreter, "busy");
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap();
    let line = maps.lines().find(|line| line.contains("libpython"));
    line.unwrap().split_whitespace().last().unwrap().into()
}

fn unanswered(folder: &TempDir) -> Target {
    let program = compile(folder, "unanswered", "-O1");
    let mut command = mortal(program);
    command.arg(library());
    Target::from_command(command)
}

#[test]
fn a_process_that_never_answers_is_left_out_and_the_others_are_whole() {
    let _machine = machine::alone();
    let folder = TempDir::new().unwrap();
    let hostile = unanswered(&folder);
    let busy = service("busy", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    child::wait_until("the work on the process is given up", || {
        let given_up = r#"profiling_agent_jobs_timed_out_total{lane="processes"}"#;
        host.metrics()[given_up] > 0.0
    });
    wait_for_cpu(&busy, SECOND);
    let metrics = host.metrics();
    assert!(metrics["profiling_agent_quarantined"] > 0.0, "{metrics:?}");
    assert!(metrics["profiling_agent_samples_lost_total"].abs() < f64::EPSILON);
    drop(busy);
    let (folder, messages) = host.stop_with_warnings();
    let pid = hostile.pid();
    assert!(
        messages.contains(&format!("process {pid} takes too long to read")),
        "{messages}"
    );
    assert!(profiles_in(&folder)["busy"].total() >= RATE * 2);
}

#[test]
fn a_capture_of_a_process_that_never_answers_says_so() {
    let _machine = machine::alone();
    let folder = TempDir::new().unwrap();
    let hostile = unanswered(&folder);
    let pid = hostile.pid().to_string();
    let capture = Capture::run(&["--pid", &pid, "--duration", "1"]);
    assert!(!capture.status.success());
    let reason = format!("cannot examine process {pid}: process {pid} was given up after 10 s");
    assert!(capture.messages.contains(&reason), "{}", capture.messages);
}

#[test]
fn a_signal_ends_a_capture_of_a_parent_whose_child_never_answers() {
    let _machine = machine::alone();
    let folder = TempDir::new().unwrap();
    let program = compile(&folder, "unanswered", "-O1");
    let mut shell = mortal("sh");
    let script = r#""$0" "$1" & echo ready; while :; do :; done"#;
    shell.args(["-c", script]).arg(program).arg(library());
    let parent = Target::from_command(shell);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    let pid = parent.pid().to_string();
    command.args(["--pid", &pid, "--children", "--duration", "600"]);
    command.args(["--output", "-", "--format", "folded"]);
    let mut capture = Running::from_command(command);
    capture.wait_until_sampling();
    wait_for_cpu(&parent, SECOND);
    capture.signal(Signal::TERM);
    // It ends before the deadline of all tests, though the child never answers.
    capture.finish().assert_success();
}
