//! The report of `doctor` about a process.

use std::fs;

use super::{
    capture::{Capture, Running},
    machine,
    target::{Killed, Target, mortal},
};

#[test]
fn an_interpreter_is_named_with_its_version() {
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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

#[test]
fn the_host_has_its_events() {
    let _machine = machine::alone();
    let examination = Capture::run(&["doctor"]);
    let report = String::from_utf8(examination.output).unwrap();
    assert_eq!(examination.status.code(), Some(0), "{report}");
    assert_eq!(examination.messages, "");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(
        report.contains(&format!("  kernel        {kernel}")),
        "{report}"
    );
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid = format!("  paranoid      {} (", paranoid.trim());
    assert!(report.contains(&paranoid), "{report}");
    // What it says of an event is so.
    let target = Target::start(machine::one_interpreter(), "busy");
    let pid = target.pid().to_string();
    let (_, events) = report.split_once("\nEvents\n").unwrap();
    let events = events.lines().take_while(|line| line.starts_with("  "));
    let events = events.filter(|line| !line.starts_with("   "));
    let mut tried = 0;
    for line in events {
        let mut words = line.split_whitespace();
        let (event, state) = (words.next().unwrap(), words.next().unwrap());
        let mut options = vec!["-p", &pid, "-d", "200ms", "-o", "/dev/null", "-e"];
        if event == "switches" {
            options.extend(["wall", "--trace-switches"]);
        } else {
            options.push(event);
        }
        let capture = Capture::run(&options);
        assert_eq!(
            capture.status.success(),
            state == "ok",
            "{line}: {}",
            capture.messages
        );
        tried += 1;
    }
    assert!(tried >= 8, "{report}");
    assert!(
        report.ends_with("This host can be profiled: agent top, agent run\n"),
        "{report}"
    );
}

#[test]
fn a_host_without_permission_cannot_be_profiled() {
    let _machine = machine::shared();
    let mut command = mortal("setpriv");
    command.args(["--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all"]);
    command.arg(env!("CARGO_BIN_EXE_agent")).arg("doctor");
    let examination = Running::from_command(command).finish();
    let report = String::from_utf8(examination.output).unwrap();
    assert_eq!(examination.status.code(), Some(1), "{report}");
    assert!(
        report.contains("  missing       permission to profile"),
        "{report}"
    );
    assert!(report.contains("This host cannot be profiled:"), "{report}");
    assert!(report.contains("CAP_BPF"), "{report}");
    assert!(!report.contains("\nEvents\n"), "{report}");
}
