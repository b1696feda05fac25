//! Which of several names an address has, and where functions end.

use agent::testing::symbolize::elf_symbols::{NoSymbolReason, SymbolLimits, SymbolLookup};
use xtask::tools;

use crate::{frames, run, symbols};

/// Functions with several names, without sizes, inside each other, and with gaps between them.
const SOURCE: &str = r"
    .text
    .globl first, __first, ___first
    .type first, @function
    .type __first, @function
    .type ___first, @function
    .type hidden, @function
    .type _start, @function
    .type inner, @function
    .type data_in_code, @object
    .weak weak_name
    .type weak_name, @function
    .globl _start
_start:
    .fill 16, 1, 0x90
    .size _start, . - _start
    .fill 16, 1, 0xcc
hidden:
first:
__first:
___first:
    .fill 32, 1, 0x90
    .size first, . - first
    .size __first, . - __first
    .size ___first, . - ___first
    .size hidden, . - hidden
weak_name:
__strong_name:
    .fill 8, 1, 0x90
inner:
    .fill 8, 1, 0x90
    .size inner, 8
    .fill 16, 1, 0x90
    .size weak_name, . - weak_name
    .globl __strong_name
    .type __strong_name, @function
    .size __strong_name, . - __strong_name
no_size:
    .fill 16, 1, 0x90
data_in_code:
    .fill 16, 1, 0
    .size data_in_code, 16
";

#[test]
fn the_best_name_is_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.s");
    std::fs::write(&source, SOURCE).unwrap();
    let program = directory.path().join("program");
    let paths = [program.to_str().unwrap(), source.to_str().unwrap()];
    run(
        &tools::GCC.path(),
        &["-nostdlib", "-static", "-no-pie", "-o", paths[0], paths[1]],
    );
    let elf =
        agent::testing::binaries::elf::Elf::read(std::fs::File::open(&program).unwrap()).unwrap();
    let start = elf.section(".text").unwrap().address;
    let mut symbols = symbols(&program, &SymbolLimits::default());
    let mut name = |into: u64| match symbols.find(start + into) {
        found @ SymbolLookup::Known(_) => Ok(frames(&found)[0].name.clone()),
        SymbolLookup::Unknown(reason) => Err(reason),
    };
    let named = |name: &str| Ok(name.to_owned());
    assert_eq!(name(0), named("_start"));
    assert_eq!(name(15), named("_start"));
    assert_eq!(name(16), Err(NoSymbolReason::Gap));
    assert_eq!(name(32), named("first"));
    assert_eq!(name(63), named("first"));
    assert_eq!(name(64), named("weak_name"));
    assert_eq!(name(72), named("inner"));
    // After the function inside it.
    assert_eq!(name(80), named("weak_name"));
    // Up to the end of the section.
    assert_eq!(name(96), named("no_size"));
    assert_eq!(name(112), named("no_size"));
    assert_eq!(name(128), Err(NoSymbolReason::Gap));
    assert_eq!(
        symbols.find(start - 1),
        SymbolLookup::Unknown(NoSymbolReason::BeforeFirst)
    );
    assert_eq!(
        symbols.find(0),
        SymbolLookup::Unknown(NoSymbolReason::BeforeFirst)
    );
    assert_eq!(
        symbols.find(u64::MAX),
        SymbolLookup::Unknown(NoSymbolReason::Gap)
    );
}

#[test]
fn a_file_without_symbols_has_that_reason() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.s");
    std::fs::write(&source, SOURCE).unwrap();
    let program = directory.path().join("program");
    let paths = [program.to_str().unwrap(), source.to_str().unwrap()];
    run(
        &tools::GCC.path(),
        &["-nostdlib", "-static", "-s", "-o", paths[0], paths[1]],
    );
    let mut symbols = symbols(&program, &SymbolLimits::default());
    assert_eq!(
        symbols.find(0x1000),
        SymbolLookup::Unknown(NoSymbolReason::NoSymbols)
    );
}
