//! Memory in use, and that at the peak, compared with what a program has touched and given back.

use std::{fs, path::Path};

use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    abilities::moves_what_grows,
    capture::{Capture, Running},
    folded::Folded,
    machine,
    program::Program,
};

/// A function of the workload, and the megabytes of it that are in use at the end and at the peak.
type Expected = (&'static str, u64, u64);

const ALONE: [Expected; 6] = [
    ("keep", 32, 32),
    ("keep_moved", 28, 28),
    ("keep_growing", 24, 24),
    ("hold", 0, 64),
    ("use_again", 0, 0),
    ("keep_in_place", 16, 0),
];

/// The same beside a child, which has most at its end.
const WITH_CHILD: [Expected; 7] = [
    ("keep", 32, 32),
    ("keep_moved", 28, 28),
    ("keep_growing", 24, 24),
    ("hold", 0, 0),
    ("use_again", 0, 0),
    ("keep_in_place", 16, 16),
    ("hold_in_child", 0, 96),
];

/// Bytes for which there is a sample.
const PERIOD: u64 = 256 << 10;

/// What chance may do: a function begins and ends in the middle of a period, on each processor on which it runs; a huge
/// page may be touched by two of them.
const CHANCE: u64 = 8 * PERIOD;

fn profile_of(folder: &Path, event: &str) -> Folded {
    let file = folder.join(format!("memory.{event}.folded"));
    Folded::parse_all(&fs::read_to_string(file).unwrap())
}

/// Runs the workload with all events of memory; returns the folder with the profiles.
fn capture(interpreter: &Interpreter, arguments: &[&str]) -> (TempDir, Capture) {
    let program = Program::of(interpreter, "holding", arguments);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("memory.folded");
    let mut command = vec!["--children", "--event", "growth,in-use,peak", "--output"];
    command.extend([file.to_str().unwrap(), "--"]);
    command.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&command).finish();
    capture.assert_success();
    (folder, capture)
}

fn assert_memory(interpreter: &Interpreter, arguments: &[&str], expected: &[Expected]) -> Capture {
    let (folder, capture) = capture(interpreter, arguments);
    let [growth, in_use, peak] =
        ["growth", "in-use", "peak"].map(|event| profile_of(folder.path(), event));
    let name = &interpreter.name;
    let of = |profile: &Folded, function: &str| {
        profile.count(|stack| stack.iter().any(|frame| frame.name == function))
    };
    for &(function, at_end, at_peak) in expected {
        if function == "keep_growing" && !moves_what_grows(interpreter) {
            continue;
        }
        let found = [of(&in_use, function), of(&peak, function)];
        println!("{name} {arguments:?}: {function}: {found:?} of {at_end} and {at_peak} MB");
        for (found, expected) in found.into_iter().zip([at_end, at_peak]) {
            assert!(
                found.abs_diff(expected << 20) <= CHANCE,
                "{name}: {function}: {found} of {expected} MB: {}{}{}",
                capture.messages,
                growth.show(|stack| stack.iter().any(|frame| frame.name == function)),
                in_use.show(|_| true)
            );
        }
    }
    // All of the growth of what is kept.
    let objects = [&growth, &in_use, &peak].map(|profile| of(profile, "keep_objects"));
    println!("{name}: objects: {objects:?}");
    assert!(objects[0] > 15 << 20, "{objects:?}");
    for found in objects {
        assert!(found.abs_diff(objects[0]) <= CHANCE, "{objects:?}");
    }
    assert!(of(&growth, "use_again") > 120 << 20);
    let says_limits = |line: &str| line.starts_with("What was in memory before is left out");
    let limits = capture.messages.lines().filter(|line| says_limits(line));
    assert_eq!(limits.count(), 2, "{}", capture.messages);
    capture
}

#[test]
fn what_is_kept_is_in_use_and_what_was_held_is_at_the_peak() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        assert_memory(interpreter, &[], &ALONE);
    });
}

#[test]
fn huge_pages_are_no_exception() {
    let _machine = machine::alone();
    let capture = assert_memory(machine::one_interpreter(), &["huge"], &ALONE);
    let output = String::from_utf8(capture.output).unwrap();
    let huge: u64 = output.trim().parse().unwrap();
    assert!(huge >= 32 << 20, "{huge}");
}

#[test]
fn a_process_that_has_ended_has_nothing_in_use_and_is_at_the_peak() {
    let _machine = machine::alone();
    assert_memory(machine::one_interpreter(), &["fork"], &WITH_CHILD);
}

/// A processor records 20,000 moves a second at most.
#[test]
fn many_moves_of_memory_are_counted_and_hide_nothing_else() {
    let _machine = machine::alone();
    let capture = assert_memory(machine::one_interpreter(), &["move"], &ALONE);
    let lost = capture.messages.lines().find_map(|line| {
        let (count, text) = line.split_once(' ')?;
        text.starts_with("moves of memory were missed, as there were too many at once")
            .then(|| count.parse::<u64>().unwrap())
    });
    let lost = lost.unwrap_or_else(|| panic!("{}", capture.messages));
    println!("{lost} moves were missed");
    assert!(lost < 200_000, "{lost}");
    assert!(
        !capture.messages.contains("were lost"),
        "{}",
        capture.messages
    );
}
