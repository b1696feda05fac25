//! The report of `doctor` about a process.

use std::fs;

use super::{
    capture::Capture,
    machine,
    target::{Killed, Target, mortal},
};

#[test]
fn an_interpreter_is_named_with_its_version() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "busy");
        let examination = Capture::run(&["doctor", "--pid", &target.pid().to_string()]);
        let report = String::from_utf8(examination.output).unwrap();
        assert_eq!(examination.status.code(), Some(0), "{report}");
        assert_eq!(examination.messages, "");
        let version = format!("CPython {}.{}.", interpreter.major, interpreter.minor);
        assert!(report.contains(&version), "{report}");
        let has_stacks =
            |line: &str| line.starts_with("  stacks ") && line.contains(" samples complete, in ");
        assert!(report.lines().any(has_stacks), "{report}");
    });
}

#[test]
fn a_process_without_python_has_native_frames() {
    let _machine = machine::alone();
    let program = fs::canonicalize("/bin/sleep").unwrap();
    let sleep = Killed::start(mortal(&program).arg("1000"));
    sleep.wait_until_it_runs(&program);
    let examination = Capture::run(&["doctor", "--pid", &sleep.pid().to_string()]);
    let report = String::from_utf8(examination.output).unwrap();
    assert_eq!(examination.status.code(), Some(0), "{report}");
    assert_eq!(examination.messages, "");
    assert!(report.contains("There are no Python frames: "), "{report}");
    assert!(report.contains("the process used no CPU"), "{report}");
}
