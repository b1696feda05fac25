//! Nobody reads standard output any more, as behind `| head -1`.

use std::{
    fs, io,
    process::{Command, Stdio},
};

use super::{capture::Capture, machine, target::Target};

/// Runs the agent with a standard output that nobody reads.
fn run_unread(arguments: &str) -> (Option<i32>, String) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(arguments.split(' ')).stdin(Stdio::null());
    let output = command.stdout(writer).output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), messages)
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid();
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("a.pb.gz");
    let profile = profile.to_str().unwrap();
    let pid_text = pid.to_string();
    let capture = Capture::run(&["-p", &pid_text, "-d", "500ms", "-r", "499", "-o", profile]);
    capture.assert_success();
    for arguments in [
        format!("report --diff {profile} {profile}"),
        format!("dump --pid {pid}"),
        format!("dump --json --pid {pid}"),
        format!("top --batch --pid {pid} -d 200ms"),
        format!("gil --pid {pid} -d 500ms"),
        format!("doctor --pid {pid}"),
        format!("--pid {pid} -d 500ms -o -"),
        "man".to_owned(),
        "completions bash".to_owned(),
    ] {
        let (status, messages) = run_unread(&arguments);
        assert_eq!(status, Some(0), "{arguments}: {messages}");
        assert!(!messages.contains("agent: "), "{arguments}: {messages}");
        assert!(!messages.contains("panicked"), "{arguments}: {messages}");
    }
}

/// What is wrong in another way is told all the same.
#[test]
fn a_full_disk_is_an_error() {
    let _machine = machine::shared();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    let output = command.arg("man").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(
        messages.contains("cannot write to standard output"),
        "{messages}"
    );
}
