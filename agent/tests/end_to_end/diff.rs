//! `agent report --diff`: profiles of a program before and after a change.

use std::path::Path;

use tempfile::TempDir;

use super::{capture::Capture, machine, target::Target};

/// Writes a profile of this event.
fn record(target: &Target, file: &Path, event: &str, duration: &str) {
    let pid = target.pid().to_string();
    let file = file.to_str().unwrap();
    Capture::run(&[
        "-p", &pid, "-e", event, "-d", duration, "-r", "499", "-o", file,
    ])
    .assert_success();
}

/// The exit status, the table and the messages of a comparison.
fn diff(before: &Path, after: &Path, options: &[&str]) -> (i32, String, String) {
    let [before, after] = [before, after].map(|path| path.to_str().unwrap());
    let mut line = vec!["report", "--diff", before, after];
    line.extend(options);
    let capture = Capture::run(&line);
    let table = String::from_utf8(capture.output).unwrap();
    (capture.status.code().unwrap(), table, capture.messages)
}

#[test]
fn what_a_program_uses_more_is_found() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (one, same, more, cpu) = (
        file("one.pb.gz"),
        file("same.pb.gz"),
        file("more.pb.gz"),
        file("cpu.pb.gz"),
    );
    record(&target, &one, "wall", "1");
    record(&target, &same, "wall", "1");
    record(&target, &more, "wall", "2");
    record(&target, &cpu, "cpu", "1");

    let (status, table, messages) = diff(&one, &more, &["--fail-above", "50%"]);
    assert_eq!(status, 3, "{messages}");
    assert!(table.contains("   main  "), "{table}");
    assert!(messages.contains("the total grew by"), "{messages}");
    assert!(messages.contains("of all, more than 50 %"), "{messages}");

    // Without a limit it is no failure, and neither within it.
    assert_eq!(diff(&one, &more, &[]).0, 0);
    assert_eq!(diff(&one, &same, &["--fail-above", "50%"]).0, 0);
    let (status, table, messages) = diff(&one, &more, &["--normalize", "--fail-above", "20%"]);
    assert_eq!(status, 0, "{table}{messages}");

    let (status, table, messages) = diff(&one, &cpu, &[]);
    assert_eq!((status, &*table), (1, ""));
    let refusal = "the profiles are of two events, wall and cpu: compare profiles of one event";
    assert!(messages.contains(refusal), "{messages}");
    let (status, _, messages) = diff(&one, &file("none.pb.gz"), &[]);
    assert_eq!(status, 1);
    assert!(messages.contains("there is no '"), "{messages}");
}
