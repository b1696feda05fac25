//! What is special in files for aarch64: stubs without call-frame information, and symbols that are none of functions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::HashSet, fs, path::Path, process::Command};

use agent::testing::binaries::{
    elf::{Elf, Which, is_mapping_symbol},
    unwind::compile,
};
use agent_common::unwind::{CfaRule, Rule, Saved};
use xtask::architecture::AARCH64;

/// A library that calls a function of another one through a stub.
const SOURCE: &str = "int other(int); int call(int number) { return other(number) + 1; }";

/// The rule of a stub: nothing is saved yet.
const UNCHANGED: Rule = Rule {
    cfa: CfaRule::REGISTER,
    register: 31,
    ..Rule::UNKNOWN
};

/// That of the first one when it has saved the return address.
const PUSHED: Rule = Rule {
    offset: 16,
    return_address: Saved::at(-1),
    ..UNCHANGED
};

fn library(directory: &Path, options: &[&str]) -> Elf<Vec<u8>> {
    let source = directory.join("source.c");
    fs::write(&source, SOURCE).unwrap();
    let library = directory.join("library.so");
    let mut compiler = Command::new(AARCH64.c_compiler().unwrap());
    compiler
        .args(["-shared", "-fPIC", "-O2", "-nostdlib", "-o"])
        .args([&library, &source]);
    assert!(compiler.args(options).status().unwrap().success());
    Elf::read(fs::read(library).unwrap()).unwrap()
}

/// The rules of the stubs, by their distances from the first one.
fn rules_of_stubs(elf: &Elf<Vec<u8>>) -> Vec<(u64, Rule)> {
    let section = elf.section(".plt").unwrap();
    let stubs = section.address..section.address + section.bytes;
    let compiled = compile(elf, &[]).unwrap();
    let rows = compiled.rows().filter(|(at, _)| stubs.contains(at));
    rows.map(|(at, rule)| (at - section.address, rule))
        .collect()
}

#[test]
fn stubs_are_unwound_by_what_they_do() {
    let directory = tempfile::tempdir().unwrap();
    let plain = rules_of_stubs(&library(directory.path(), &[]));
    assert_eq!(plain, [(0, UNCHANGED), (4, PUSHED), (32, UNCHANGED)]);
    let checked = ["-mbranch-protection=standard", "-Wl,-z,force-bti"];
    let checked = rules_of_stubs(&library(directory.path(), &checked));
    assert_eq!(checked, [(0, UNCHANGED), (8, PUSHED), (32, UNCHANGED)]);
}

#[test]
fn symbols_that_say_where_code_begins_are_no_functions() {
    let directory = tempfile::tempdir().unwrap();
    let elf = library(directory.path(), &[]);
    let table = elf.symbol_table(Which::All).unwrap();
    let mut names = HashSet::new();
    elf.functions(&table, |function| {
        let name = elf.function_name(&table, function.name).unwrap();
        names.insert(String::from_utf8(name).unwrap());
    })
    .unwrap();
    assert!(names.contains("call"), "{names:?}");
    assert!(!names.iter().any(|it| it.starts_with('$')), "{names:?}");
    // The file has them.
    let file = fs::read(directory.path().join("library.so")).unwrap();
    assert!(file.split(|byte| *byte == 0).any(is_mapping_symbol));
}
