//! Events that end a capture, and its output then.

use std::{fs, os::unix::process::ExitStatusExt as _, process::Command, thread, time::Duration};

use rustix::process::Signal;

use super::{
    capture::{Capture, Running},
    folded::is_marked,
    machine, pprof,
    target::Target,
};

/// A duration that no test reaches.
const LONG: &str = "1h";

/// The message when the process ended.
const PROCESS_ENDED: &str = "The process ended before the time was over.";

#[test]
fn signals_end_a_capture_early() {
    let _machine = machine::shared();
    for signal in [Signal::INT, Signal::TERM] {
        let target = Target::start(machine::one_interpreter(), "busy");
        let capture = capture_ended_by(&target, |capture, _| capture.signal(signal));
        let messages = capture.messages.clone();
        assert!(!messages.contains(PROCESS_ENDED), "{messages}");
        let folded = capture.into_folded();
        assert!(folded.total() > 0);
        assert_eq!(
            folded.show(|stack| stack.len() != 2 && !is_marked(stack)),
            ""
        );
    }
}

#[test]
fn the_end_of_the_process_ends_a_capture_early() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "busy");
        let capture = capture_ended_by(&target, |_, target| target.kill());
        let messages = capture.messages.clone();
        assert!(
            messages.lines().any(|line| line == PROCESS_ENDED),
            "{messages}"
        );
        let folded = capture.into_folded();
        assert!(folded.total() > 0);
        assert_eq!(
            folded.show(|stack| stack.len() != 2 && !is_marked(stack)),
            ""
        );
    });
}

#[test]
fn a_file_of_a_capture_that_ended_early_is_complete() {
    let _machine = machine::shared();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.pb.gz");
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    let mut capture = Running::start(&["-p", &pid, "-d", LONG, "-o", file.to_str().unwrap()]);
    capture.wait_until_sampling();
    assert!(!file.exists());
    thread::sleep(Duration::from_secs(1));
    capture.signal(Signal::INT);
    let capture = capture.finish();
    capture.assert_success();
    assert_eq!(capture.output, b"");
    let written = format!("Written to {}", file.display());
    assert!(
        capture.messages.lines().any(|line| line == written),
        "{}",
        capture.messages
    );
    let profile = pprof::read(&fs::read(&file).unwrap());
    assert!(profile.total() > 0);
    assert!(profile.duration < Duration::from_secs(3600));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_signal_before_sampling_leaves_no_temporary_files() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    // Stages of the startup; most of it is the kernel's verification of the BPF program.
    for milliseconds in [0, 10, 30, 100, 200, 300] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile.pb.gz");
        let capture = Running::start(&["-p", &pid, "-d", LONG, "-o", file.to_str().unwrap()]);
        thread::sleep(Duration::from_millis(milliseconds));
        capture.signal(Signal::INT);
        let Capture {
            status, messages, ..
        } = capture.finish();
        // Before its handler is installed, the signal kills the agent.
        let is_killed = status.signal() == Some(Signal::INT.as_raw());
        println!("after {milliseconds} ms: {status}");
        assert!(
            is_killed || status.success(),
            "after {milliseconds} ms: {status}: {messages}"
        );
        let leftovers: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| *path != file)
            .collect();
        assert!(
            leftovers.is_empty(),
            "after {milliseconds} ms: {leftovers:?}"
        );
    }
}

/// A shell starts background commands with this signal ignored.
#[test]
fn sigint_ends_a_capture_that_was_started_with_it_ignored() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    let mut capture = with_sigint_ignored(&["-p", &pid, "-d", LONG, "-f", "folded", "-o", "-"]);
    capture.wait_until_sampling();
    thread::sleep(Duration::from_secs(1));
    capture.signal(Signal::INT);
    assert!(capture.finish().into_folded().total() > 0);
}

#[test]
fn a_program_is_started_with_sigint_ignored_if_the_agent_was() {
    let _machine = machine::shared();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.folded");
    let line = [
        "-o",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "kill -INT $$; exit 7",
    ];
    let ignored = with_sigint_ignored(&line).finish();
    assert_eq!(ignored.status.code(), Some(7), "{}", ignored.messages);
    let default = Capture::run(&line);
    let by_signal = 128 + Signal::INT.as_raw();
    assert_eq!(
        default.status.code(),
        Some(by_signal),
        "{}",
        default.messages
    );
}

/// Starts the agent with `SIGINT` ignored.
fn with_sigint_ignored(arguments: &[&str]) -> Running {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' INT; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_agent"))
        .args(arguments);
    Running::from_command(shell)
}

#[test]
fn standard_output_has_only_the_profile_and_progress_is_for_terminals() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    let capture = Capture::run(&["-p", &pid, "-d", "2", "-f", "folded", "-o", "-"]);
    let messages = capture.messages.clone();
    assert!(!messages.contains(['\r', '\x1b']), "{messages:?}");
    assert!(!messages.contains("Ctrl-C"), "{messages}");
    assert!(!messages.contains("Written to"), "{messages}");
    let folded = capture.into_folded();
    let samples = format!(": {} samples in ", folded.total());
    assert!(messages.contains(&samples), "{samples}: {messages}");
}

/// Samples for a second, then calls `end`, which must end the capture.
fn capture_ended_by(target: &Target, end: impl FnOnce(&Running, &Target)) -> Capture {
    let pid = target.pid().to_string();
    let mut capture = Running::start(&["-p", &pid, "-d", LONG, "-f", "folded", "-o", "-"]);
    capture.wait_until_sampling();
    thread::sleep(Duration::from_secs(1));
    end(&capture, target);
    capture.finish()
}
