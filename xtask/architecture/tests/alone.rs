//! Tests that profile real programs say whether others may run beside them.
//!
//! Most want the processors for their workloads: one beside another makes both fail by chance.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;

/// How a test gets a program to profile.
const STARTS: [&str; 4] = ["Target::", "Program::", "Host::start", "machine::for_"];

/// How it waits until no other test runs, or only such as may run beside it.
const LOCKS: [&str; 2] = ["machine::alone()", "machine::shared()"];

/// The tests in a formatted file, each from its name to its end.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.split("\n#[test]\n").skip(1);
    tests.map(|test| test.split("\n}\n").next().unwrap_or(test))
}

#[test]
fn each_test_that_starts_a_program_locks_the_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent/tests/end_to_end");
    let mut seen = 0;
    let mut without = Vec::new();
    for path in architecture::files(&folder, &["rs"]).unwrap() {
        let text = fs::read_to_string(&path).unwrap();
        for test in tests(&text) {
            let starts = STARTS.iter().any(|start| test.contains(start));
            seen += usize::from(starts);
            if starts && !LOCKS.iter().any(|lock| test.contains(lock)) {
                let name = test.lines().find(|line| line.contains("fn "));
                without.push(format!("{}: {}", path.display(), name.unwrap_or(test)));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(without.is_empty(), "{}", without.join("\n"));
}
