//! Line tables of the whole standard library, decoded here and by every interpreter itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufReader, Read},
    process::{Command, Stdio},
};

use agent::python::line_table::LineTable;
use agent_common::layout::LineTableFormat;
use xtask::interpreters::{self, Interpreter};

#[path = "data/child.rs"]
mod child;

/// What the interpreters run; describes what it writes.
const PROGRAM: &str = include_str!("data/line_tables.py");

/// Bytes of the numbers in front of a table.
const HEAD_BYTES: usize = 20;

/// Code objects that even the smallest standard library has.
const LEAST_CODE_OBJECTS: usize = 10_000;

/// Differences that are shown of each interpreter.
const MOST_SHOWN: usize = 10;

#[test]
fn every_instruction_has_the_line_that_the_interpreter_says() {
    let interpreters = interpreters::all().unwrap();
    assert!(!interpreters.is_empty());
    let mut differences = 0;
    for interpreter in interpreters {
        let result = compare(&interpreter);
        println!(
            "{interpreter}: {} code objects, {} offsets, {} without a line, {} different",
            result.code_objects, result.offsets, result.without_line, result.different
        );
        assert!(result.code_objects >= LEAST_CODE_OBJECTS);
        differences += result.different;
    }
    assert_eq!(differences, 0);
}

/// What a comparison came to.
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
            // What `-I` does, which the oldest do not have.
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

/// The numbers in front of a table, or nothing at the end.
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

/// As many bytes as there are, at most this number.
fn read_bytes(input: &mut impl Read, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    input.take(bytes as u64).read_to_end(&mut read).unwrap();
    read
}
