//! Error messages of the agent.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use xtask::tools;

use super::{
    capture::{Capture, Running},
    machine,
    target::{Killed, Target, mortal},
};

/// An id that no process can have, the first above the kernel's `PID_MAX_LIMIT`.
const NO_PROCESS: &str = "4194304";

/// An unprivileged user: the kernel's `nobody`.
const NOBODY: &str = "65534";

/// A duration that no test reaches.
const LONG: &str = "1h";

#[test]
fn the_error_for_a_missing_process_has_its_id() {
    let _machine = machine::shared();
    let message = error(&["--pid", NO_PROCESS]);
    assert!(message.contains("no process 4194304"), "{message}");
}

#[test]
fn a_process_that_is_not_python_is_named_with_its_program() {
    let _machine = machine::shared();
    let program = fs::canonicalize("/bin/sleep").unwrap();
    let sleep = Killed::start(mortal(&program).arg("1000"));
    sleep.wait_until_it_runs(&program);
    let message = error(&["--no-native", "--pid", &sleep.pid().to_string()]);
    let sentence = format!("runs {}, which is not Python", program.display());
    assert!(message.contains(&sentence), "{message}");
}

#[test]
fn an_unsupported_python_is_named_with_its_version() {
    let _machine = machine::shared();
    let folder = tempfile::tempdir().unwrap();
    let program = stand_in_for_python_3_5(folder.path());
    let target = Target::from_command(mortal(program));
    let message = error(&["--no-native", "--pid", &target.pid().to_string()]);
    assert!(message.contains("runs Python 3.5 "), "{message}");
    assert!(message.contains("not supported"), "{message}");
}

#[test]
fn an_output_that_cannot_be_written_fails_before_sampling() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    // In the second one, not even root may create files.
    for (folder, reason) in [
        (&*missing, "no folder"),
        (Path::new("/sys/kernel"), "denied"),
    ] {
        let file = folder.join("profile.svg");
        let message = error(&["--pid", &pid, "-d", LONG, "-o", file.to_str().unwrap()]);
        assert!(
            message.contains(&format!("'{}'", folder.display())),
            "{message}"
        );
        assert!(message.contains(reason), "{message}");
    }
    assert!(!missing.exists());
}

#[test]
fn missing_capabilities_are_named() {
    let _machine = machine::alone();
    let public = PublicAgent::new();
    // A process of root and one of the unprivileged user.
    let of_root = Target::start(machine::one_interpreter(), "busy");
    let own = Killed::start(unprivileged(Path::new("/bin/sleep")).arg("1000"));
    for pid in [of_root.pid(), own.pid()] {
        let mut command = unprivileged(&public.path);
        command.args(["--pid", &pid.to_string(), "-o", "/dev/null"]);
        let message = message_of(&Running::from_command(command).finish());
        for capability in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"] {
            assert!(message.contains(capability), "{capability}: {message}");
        }
    }
}

#[test]
fn an_invalid_command_line_has_its_own_exit_status() {
    let _machine = machine::shared();
    for arguments in [
        "--rate 99",
        "run --rates 99",
        "--pid 0",
        "--pid 1 --duration 0",
        "--pid 1 --rate 0",
        "--pid 1 --output profile.json",
        "--pid 1 --unknown",
    ] {
        let capture = Capture::run(&arguments.split_whitespace().collect::<Vec<_>>());
        assert_eq!(capture.status.code(), Some(2), "{arguments}");
        assert!(
            capture.messages.starts_with("error: "),
            "{}",
            capture.messages
        );
        assert_eq!(capture.output, b"");
    }
}

#[test]
fn what_could_have_been_meant_is_suggested() {
    let _machine = machine::shared();
    for (arguments, suggested) in [
        ("recrod --pid 1", "'record'"),
        ("tpo", "'top'"),
        ("--children dmup", "'dump'"),
        ("python3 script.py", "a program to start comes after '--'"),
        ("--pid 1 --dration 5", "'--duration'"),
        ("--nmae web", "'--name'"),
        ("--pid 1 --event cpuu", "'cpu'"),
        ("completions bsh", "'bash'"),
        ("run --log-levl debug", "'--log-level'"),
    ] {
        let capture = Capture::run(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(capture.status.code(), Some(2), "{arguments}");
        let tip = capture.messages.lines().find(|line| line.contains("tip: "));
        assert!(
            tip.is_some_and(|tip| tip.contains(suggested)),
            "{arguments}: {}",
            capture.messages
        );
    }
    // A word behind a command is none.
    let capture = Capture::run(&["man", "recrod"]);
    assert!(
        !capture.messages.contains("'record'"),
        "{}",
        capture.messages
    );
}

/// The error message of a run that fails.
fn error(arguments: &[&str]) -> String {
    message_of(&Capture::run(arguments))
}

fn message_of(capture: &Capture) -> String {
    let Capture {
        status,
        output,
        messages,
    } = capture;
    assert_eq!(status.code(), Some(1), "{messages}");
    assert_eq!(output, b"");
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(messages.starts_with("agent: "), "{messages}");
    messages.trim_end().to_owned()
}

/// A program that exports the symbol of Python 3.5 and prints `ready`: interpreters that are too
/// old are no longer available.
fn stand_in_for_python_3_5(folder: &Path) -> PathBuf {
    let source = folder.join("python.c");
    let text = "#include <stdio.h>\n#include <unistd.h>\nvoid *_PyThreadState_Current;\n\
                int main(void) { puts(\"ready\"); fflush(stdout); for (;;) pause(); }\n";
    fs::write(&source, text).unwrap();
    let program = folder.join("python3.5");
    let compiled = tools::GCC
        .command()
        .arg("-rdynamic")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    program
}

/// A command that runs a program without any privileges.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(program);
    command
}

/// A copy of the agent that all users may execute.
struct PublicAgent {
    path: PathBuf,
    _folder: TempDir,
}

impl PublicAgent {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let permissions = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), permissions).unwrap();
        let path = folder.path().join("agent");
        fs::copy(env!("CARGO_BIN_EXE_agent"), &path).unwrap();
        Self {
            path,
            _folder: folder,
        }
    }
}

/// Else a configuration that was checked keeps the agent from its next start.
#[test]
fn the_check_of_a_configuration_refuses_what_a_start_would() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "short").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let in_file = format!("{{a: {{type: file, folder: {}/profiles}}}}", file.display());
    for (flag, value, message) in [
        ("--log-level", "loud", "`log_level` is `loud`"),
        (
            "--exporters",
            "{a: {type: parca, url: 'gopher://x'}}",
            "exporter 'a': ",
        ),
        ("--exporters", &in_file, "exporter 'a': the folder "),
        ("--http-token-file", token.to_str().unwrap(), "token"),
    ] {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
        let agent = agent.args(["run", "--check-config", "--listen", "127.0.0.1:0"]);
        let output = agent.args([flag, value]).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{value}: {messages}");
        assert!(messages.contains(message), "{value}: {messages}");
    }
    let made = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(made, 2);
}
