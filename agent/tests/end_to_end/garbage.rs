//! Time in which the interpreter collects garbage, by a program that measures it itself.

use std::{fs, path::Path};

use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    abilities::tells_of_collections,
    capture::Capture,
    folded::{Folded, Frame, GC, names},
    machine,
    target::Target,
    waiting::ratio,
};

/// Tolerated error of the share, of which the program says with each turn of some hundredths of a second
/// how large it is.
const TOLERANCE: f64 = 0.06;

#[test]
fn the_time_of_collections_has_a_marker_and_a_share_in_the_summary() {
    let _machine = machine::alone();
    machine::for_each_representative_that(tells_of_collections, check);
}

#[test]
fn collections_of_builds_without_a_gil_are_found() {
    let _machine = machine::alone();
    machine::for_each_that(|interpreter| interpreter.free_threaded, check);
}

fn check(interpreter: &Interpreter) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("clocks");
    let arguments = [file.to_str().unwrap().to_owned()];
    let target = Target::start_with(interpreter, "collecting", &arguments);
    let before = read(&file);
    let pid = target.pid().to_string();
    let line = [
        "--pid", &pid, "-d", "2", "-r", "999", "-f", "folded", "-o", "-",
    ];
    let capture = Capture::run(&line);
    let after = read(&file);
    capture.assert_success();
    let stamped = ratio(after[0] - before[0], after[1] - before[1]);
    let folded = Folded::parse_all(std::str::from_utf8(&capture.output).unwrap());

    let collects = |stack: &[Frame]| names(stack).last() == Some(&GC);
    let sampled = ratio(folded.count(collects), folded.total());
    println!("{}: {sampled:.3} of {stamped:.3}", interpreter.name);
    assert!((sampled - stamped).abs() < TOLERANCE, "{sampled} {stamped}");
    // Only where it is collected, and all of the time.
    let is_in = |stack: &[Frame], function| names(stack).contains(&function);
    let elsewhere = |stack: &[Frame]| collects(stack) && !is_in(stack, "collects");
    assert_eq!(folded.show(elsewhere), "");
    let collecting = folded.count(|stack| is_in(stack, "collects"));
    assert!(folded.count(collects) * 100 >= collecting * 95);
    let messages = &capture.messages;
    assert!(messages.contains("(GC "), "{messages}");
}

/// The CPU time of collections and all of it, in nanoseconds.
fn read(file: &Path) -> [u64; 2] {
    let bytes = fs::read(file).unwrap();
    let (words, _) = bytes.as_chunks();
    [words[0], words[1]].map(u64::from_ne_bytes)
}
