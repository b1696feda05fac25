//! Memory that is copied because it is written to, compared with the kernel's account of the processes.

use std::{collections::BTreeMap, fs, thread};

use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    capture::Running,
    folded::{Folded, Frame},
    host::{Host, WINDOW, folded_report},
    machine,
    program::Program,
};

/// The functions of the workload that write to memory of which a copy has to be made, and what of it.
const COPIES: [(&str, &str); 5] = [
    ("change_data", DATA),
    ("count_references", "[reference count]"),
    ("collect", "[gc header]"),
    ("change_copies_of_file", DATA),
    ("change_as_parent", DATA),
];

/// Those that write to memory without a copy: to what was copied before, is shared, was of no page yet, or is of no
/// other process any more.
const NO_COPIES: [&str; 4] = [
    "change_again",
    "change_shared",
    "change_zeros",
    "change_alone",
];

const DATA: &str = "[data]";

/// What chance may do: bytes for which there is a sample, at the beginning and the end, on two processors.
const CHANCE: u64 = 4 * (64 << 10);

/// Tolerated error besides, in per cent.
const TOLERANCE: u64 = 2;

/// What the workload has printed: functions, and the bytes that were copied for them.
fn printed(output: Vec<u8>) -> BTreeMap<String, i64> {
    let output = String::from_utf8(output).unwrap();
    let lines = output.lines().map(|line| {
        let (name, bytes) = line.split_once(' ').unwrap();
        (name.to_owned(), bytes.parse().unwrap())
    });
    lines.collect()
}

/// Asserts that each function has what it has copied in a profile, by what it has written to.
fn assert_copies(profile: &Folded, printed: &BTreeMap<String, i64>, interpreter: &Interpreter) {
    let name = &interpreter.name;
    let copied = |function: &str, memory: Option<&str>| {
        profile.count(|stack: &[Frame]| {
            let leaf = stack.last().map(|leaf| &*leaf.name);
            stack.iter().any(|frame| frame.name == function)
                && memory.is_none_or(|memory| leaf == Some(memory))
        })
    };
    for (function, memory) in COPIES {
        let gained = printed[function].cast_unsigned();
        let found = copied(function, None);
        let of_memory = copied(function, Some(memory));
        println!("{name}: {function}: {found} of {gained}, {of_memory} {memory}");
        assert!(gained > 5_000_000, "{name}: {function}: {gained}");
        assert!(
            found.abs_diff(gained) * 100 <= gained * TOLERANCE + CHANCE * 100,
            "{name}: {function}: {found} of {gained}"
        );
        // Without the GIL, and before Python 3, the collector writes to other fields too.
        let is_certain =
            function != "collect" || interpreter.major != 2 && !interpreter.name.ends_with('t');
        assert!(
            !is_certain || of_memory * 100 >= found * 95,
            "{name}: {function}: {of_memory} of {found} are {memory}"
        );
    }
    for function in NO_COPIES {
        // The little memory that it needs itself may be one that was free before the fork.
        let gained = printed[function];
        assert!(gained.abs() < 1 << 20, "{name}: {function}: {gained}");
        let found = copied(function, None).cast_signed();
        assert!(
            found <= gained + CHANCE.cast_signed(),
            "{name}: {function}: {found} of {gained}"
        );
    }
}

#[test]
fn each_function_has_the_memory_that_was_copied_for_it() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let program = Program::of(interpreter, "copying", &[]);
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("copies.folded");
        let mut arguments = vec!["--children", "--event", "copy-on-write", "--output"];
        arguments.extend([file.to_str().unwrap(), "--"]);
        arguments.extend(program.0.iter().map(String::as_str));
        let capture = Running::start(&arguments).finish();
        capture.assert_success();
        let profile = Folded::parse_all(&fs::read_to_string(&file).unwrap());
        assert_copies(&profile, &printed(capture.output), interpreter);
        let has_parts = |line: &str| line.starts_with("written ") && line.contains("data ");
        assert!(
            capture.messages.lines().any(has_parts),
            "{}",
            capture.messages
        );
    });
}

/// Parent and child are in one profile, that of their service.
#[test]
fn a_host_has_the_copies_of_all_processes_of_a_service() {
    let _machine = machine::alone();
    let host = Host::start("events: [copy-on-write, cpu]");
    let interpreter = machine::one_interpreter();
    let program = Program::of(interpreter, "copying", &[]);
    let printed = printed(program.run_as("copying"));
    thread::sleep(WINDOW);
    let folder = host.stop();
    let merged = folded_report(&folder, "--service copying --event copy-on-write");
    assert_copies(&Folded::parse_all(&merged), &printed, interpreter);
}
