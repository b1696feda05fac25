//! Line tables of the standard library, decoded by the agent and by interpreters of every layout.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufReader, Read},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use agent::testing::python::line_table::LineTable;
use agent_common::layout::LineTableFormat;
use test_support::child;
use xtask::interpreters::{self, Interpreter};

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("data/line_tables.py");

/// Bytes of the numbers in front of a table.
const HEAD_BYTES: usize = 20;

/// Interpreters that are compared in parallel.
const AT_ONCE: usize = 2;

/// Fewest code objects of a standard library.
const LEAST_CODE_OBJECTS: usize = 10_000;

/// Most differences that are printed for an interpreter.
const MOST_SHOWN: usize = 10;

#[test]
fn every_instruction_has_the_line_of_the_interpreter() {
    let interpreters = interpreters::few().unwrap();
    let remaining = Mutex::new(interpreters.iter());
    let differences = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = remaining.lock().unwrap().next();
                    let Some(interpreter) = next else { return };
                    let result = compare(interpreter);
                    println!(
                        "{interpreter}: {} code objects, {} offsets, {} without a line, {} different",
                        result.code_objects, result.offsets, result.without_line, result.different
                    );
                    assert!(result.code_objects >= LEAST_CODE_OBJECTS);
                    differences.fetch_add(result.different, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(differences.into_inner(), 0);
}

/// The result of a comparison.
#[derive(Default)]
struct Comparison {
    code_objects: usize,
    offsets: usize,
    without_line: usize,
    different: usize,
}

fn compare(interpreter: &Interpreter) -> Comparison {
    let mut child = child::start(
        Command::new(&interpreter.path)
            // Equivalent to `-I`, which the oldest versions lack.
            .args(["-E", "-s", "-W", "ignore", "-c", PROGRAM])
            .stdout(Stdio::piped()),
    );
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut comparison = Comparison::default();
    while let Some(head) = read_head(&mut output) {
        let [format, first_line, table_bytes, unit_bytes, count] = head;
        let table = read_bytes(&mut output, table_bytes as usize);
        let answers = read_bytes(&mut output, 4 * count as usize);
        let (answers, _) = answers.as_chunks();
        let format = LineTableFormat(format.try_into().unwrap());
        let first_line = first_line.cast_signed();
        let decoded = LineTable::new(format, first_line, &table);
        assert_eq!(
            decoded.line(-1).map_or(0, u32::from),
            first_line.cast_unsigned(),
            "before the first instruction"
        );
        let offsets = (0..).step_by(unit_bytes as usize);
        for (offset, answer) in offsets.zip(answers) {
            let answer = u32::from_le_bytes(*answer);
            let line = decoded.line(offset).map_or(0, u32::from);
            comparison.without_line += usize::from(answer == 0);
            if line != answer {
                comparison.different += 1;
            }
            if line != answer && comparison.different <= MOST_SHOWN {
                println!("{interpreter}: {line} for {answer} at {offset} of {table:?}");
            }
        }
        comparison.code_objects += 1;
        comparison.offsets += answers.len();
    }
    assert!(child.wait().unwrap().success(), "{interpreter}");
    comparison
}

/// The numbers in front of a table; [`None`] at the end.
fn read_head(input: &mut impl Read) -> Option<[u32; 5]> {
    let head = read_bytes(input, HEAD_BYTES);
    let (numbers, _) = head.as_chunks();
    numbers
        .iter()
        .map(|number| u32::from_le_bytes(*number))
        .collect::<Vec<_>>()
        .try_into()
        .ok()
}

/// Reads up to this number of bytes.
fn read_bytes(input: &mut impl Read, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    input.take(bytes as u64).read_to_end(&mut read).unwrap();
    read
}
