//! Growth of resident memory, compared with the kernel's account of the process.

use std::fs;

use tempfile::TempDir;

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame},
    machine,
    program::Program,
    target::Target,
};

/// The functions of the workload, and the memory by which they grow.
const FUNCTIONS: [(&str, &str); 9] = [
    ("grow_list", ANONYMOUS),
    ("grow_bytes", ANONYMOUS),
    ("grow_private", ANONYMOUS),
    ("grow_shared", "[shared memory]"),
    ("grow_by_read", ANONYMOUS),
    ("grow_by_file", "[file memory]"),
    ("grow_huge", ANONYMOUS),
    ("grow_large", ANONYMOUS),
    ("grow_small", ANONYMOUS),
];

const ANONYMOUS: &str = "[anonymous memory]";

/// Bytes for which there is a sample.
const PERIOD: u64 = 256 << 10;

/// What chance may do: a function begins and ends in the middle of a period, on each processor on which it runs.
const CHANCE: u64 = 4 * PERIOD;

/// The same of threads that grow at the same time: now and then a processor gets the pages that another one hands over in
/// the same microsecond.
const CHANCE_AT_ONCE: u64 = 8 * PERIOD;

/// Tolerated error besides, in per cent.
const TOLERANCE: u64 = 2;

#[test]
fn each_function_has_the_memory_by_which_the_process_grew() {
    let _machine = machine::alone();
    machine::for_each_kind_alone(|interpreter| {
        let program = Program::of(interpreter, "growing", &[]);
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("growth.folded");
        let mut arguments = vec!["--event", "growth", "--output"];
        arguments.extend([file.to_str().unwrap(), "--"]);
        arguments.extend(program.0.iter().map(String::as_str));
        let capture = Running::start(&arguments).finish();
        capture.assert_success();
        let profile = Folded::parse_all(&fs::read_to_string(&file).unwrap());
        let output = String::from_utf8(capture.output).unwrap();
        let mut lines = output.lines();
        for (function, memory) in FUNCTIONS {
            let line = lines.find_map(|line| line.strip_prefix(function)).unwrap();
            let gained: u64 = line.trim().parse().unwrap();
            let is_in = |stack: &[Frame]| stack.iter().any(|frame| frame.name == function);
            let found = profile.count(is_in);
            let of_memory = profile.count(|stack| {
                is_in(stack) && stack.last().is_some_and(|leaf| leaf.name == memory)
            });
            let error = found.abs_diff(gained);
            let chance = match function {
                "grow_large" | "grow_small" => CHANCE_AT_ONCE,
                _ => CHANCE,
            };
            assert!(
                error * 100 <= gained * TOLERANCE + chance * 100,
                "{function}: {found} of {gained}"
            );
            assert!(gained > 10_000_000, "{function}: {gained}");
            assert!(
                of_memory * 100 >= found * (100 - TOLERANCE) - CHANCE.min(found) * 100,
                "{function}: {of_memory} of {found} are {memory}"
            );
        }
        let mut number = |name| -> u64 {
            let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        let (must_be_given_back, resident) = (number("given_back"), number("resident"));
        let summary = capture.messages;
        let has_total = |line: &str| line.ends_with(" MB of new resident memory");
        assert!(summary.lines().any(has_total), "{summary}");
        let given_back = given_back(&summary);
        let (total, name) = (profile.total(), &interpreter.name);
        println!("{name}: {total} - {given_back} = {resident}");
        assert!(given_back >= must_be_given_back, "{summary}");
        // Since the program began it has no other memory.
        let left = total - given_back;
        assert!(
            left.abs_diff(resident) * 100 <= total * TOLERANCE + CHANCE_AT_ONCE * 100,
            "{name}: {left} of {resident}"
        );
    });
}

/// The bytes in the sentence of a summary.
fn given_back(summary: &str) -> u64 {
    let sentence = " bytes of resident memory were given back meanwhile, and not taken off.";
    let bytes = summary.lines().find_map(|line| line.strip_suffix(sentence));
    bytes
        .unwrap_or_else(|| panic!("{summary}"))
        .parse()
        .unwrap()
}

#[test]
fn memory_that_was_there_before_is_no_growth() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let profile = Capture::whole(target.pid(), "--event growth --duration 1");
    let grown = profile.total();
    assert!(grown <= CHANCE, "{grown}");
}
