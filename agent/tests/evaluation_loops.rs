//! Location of the evaluation loop in every interpreter, with and without the symbols of its parts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs::File, ops::Range, path::Path};

use agent::testing::{
    binaries::{
        elf::Elf,
        unwind::{CodeMark, CodeRole, compile},
    },
    python::evaluation_loop::ranges,
};
use agent_common::unwind::RuleFlags;
use test_support::mapped;
use xtask::{interpreters, tools};

/// Least size of the loop with all of its parts in bytes: in 2.7 it is 29,040.
const LEAST_BYTES: u64 = 25_000;

/// Largest part in bytes that does not jump back: compilers leave a few unreachable instructions.
const UNREACHABLE_BYTES: u64 = 64;

/// Largest size in bytes of the function that calls the loop of a tail-call interpreter.
const CALLER_BYTES: u64 = 4096;

#[test]
fn every_interpreter_has_one_loop() {
    for interpreter in interpreters::all().unwrap() {
        let mut loops = Vec::new();
        for mapped in mapped::files(&interpreter) {
            let elf = Elf::read(mapped.file).unwrap();
            let found = ranges(&elf).unwrap();
            if !found.is_empty() {
                check_flags(&elf, &found);
                loops.push((mapped.name, found));
            }
        }
        let [(name, found)] = &loops[..] else {
            panic!("{interpreter}: {loops:x?}");
        };
        println!(
            "{interpreter}: {name}, {} parts, {} bytes",
            found.len(),
            bytes(found)
        );
        assert!(bytes(found) >= LEAST_BYTES, "{interpreter}: {found:x?}");
    }
}

/// Exactly the rules of addresses in the loop are marked.
fn check_flags(elf: &Elf<File>, found: &[Range<u64>]) {
    let plain = compile(elf, &[]).unwrap();
    let with_role = |range: &Range<u64>| CodeMark {
        range: range.clone(),
        role: CodeRole::EvaluationLoop,
    };
    let marks: Vec<_> = found.iter().map(with_role).collect();
    let marked = compile(elf, &marks).unwrap();
    let mut both = 0;
    for (address, mut rule) in marked.rows() {
        let is_in_loop = found.iter().any(|range| range.contains(&address));
        assert_eq!(
            rule.flags.has(RuleFlags::EVALUATES),
            is_in_loop,
            "{address:#x}"
        );
        both += usize::from(is_in_loop);
        if is_in_loop {
            rule.flags.0 -= RuleFlags::EVALUATES.0;
        }
        assert_eq!(rule, plain.find(address), "{address:#x}");
    }
    assert!(both >= found.len());
}

#[test]
fn a_stripped_file_has_the_same_loop() {
    let directory = tempfile::tempdir().unwrap();
    let stripped = directory.path().join("stripped");
    let mut compared = 0;
    for interpreter in interpreters::all().unwrap() {
        for mapped in mapped::files(&interpreter) {
            let elf = Elf::read(mapped.file.try_clone().unwrap()).unwrap();
            let mut named = ranges(&elf).unwrap();
            if named.is_empty() || elf.section(".symtab").is_none() {
                continue;
            }
            strip(&mapped.file, &stripped);
            let found = ranges(&Elf::read(File::open(&stripped).unwrap()).unwrap()).unwrap();
            compared += 1;
            if !elf.symbols_with_prefix("_TAIL_CALL_").unwrap().is_empty() {
                // Without symbols only the function that calls the others is found.
                assert_eq!(found.len(), 1, "{interpreter}: {found:x?}");
                assert!(bytes(&found) < CALLER_BYTES, "{interpreter}: {found:x?}");
                continue;
            }
            named.retain(|part| part.end - part.start > UNREACHABLE_BYTES);
            assert_eq!(found, named, "{interpreter}");
        }
    }
    assert!(compared > 0);
}

fn strip(file: &File, into: &Path) {
    let status = tools::STRIP
        .command()
        .args(["-o"])
        .arg(into)
        .arg("/dev/stdin")
        .stdin(file.try_clone().unwrap())
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn the_parts_equal_those_of_the_debugging_symbols() {
    // The package with debug symbols also installs the matching build.
    let interpreter = interpreters::named("3.13-debug").unwrap();
    let root = interpreter.root().unwrap();
    let elf = Elf::read(File::open(root.join("usr/bin/python3.13")).unwrap()).unwrap();
    assert!(elf.section(".symtab").is_none());
    let id = elf.build_id().unwrap().unwrap();
    let (first, rest) = id.split_at(2);
    let symbols = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
    let symbols = Elf::read(File::open(root.join(symbols)).unwrap()).unwrap();

    let name = "_PyEval_EvalFrameDefault";
    let mut named = symbols.symbols_with_prefix(name).unwrap();
    named.sort_by_key(|symbol| symbol.address);
    let named: Vec<_> = named
        .iter()
        .map(|symbol| symbol.address..symbol.address + symbol.bytes)
        .collect();
    let found = ranges(&elf).unwrap();
    assert_eq!(found, named);
    assert!(found.len() > 1, "{found:x?}");
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
