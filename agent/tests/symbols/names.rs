//! Which of several names an address has, and where functions end.

use std::path::Path;

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

/// The first address and the name of each stub of a file, according to `objdump`.
fn stubs(objdump: &Path, file: &Path) -> Vec<(u64, String)> {
    let sections = ["-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got"];
    let mut command = std::process::Command::new(objdump);
    let output = command.arg("-d").args(sections).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| {
        let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        name.ends_with("@plt").then(|| (address, name.to_owned()))
    });
    names.collect()
}

/// Compares the names of all stubs of a file with those of `objdump`; returns how many there are.
fn compare_stubs(objdump: &Path, file: &Path) -> usize {
    let stubs = stubs(objdump, file);
    let addresses: Vec<u64> = stubs.iter().map(|(address, _)| address + 5).collect();
    let found = symbols(file, &SymbolLimits::default()).find_all(&addresses);
    for ((address, expected), found) in stubs.iter().zip(&found) {
        let names: Vec<&str> = frames(found).iter().map(|it| it.name.as_str()).collect();
        // Symbols of C++ are demangled.
        assert!(
            names == [expected.as_str()] || expected.starts_with("_Z"),
            "{address:#x} {expected} {names:?}"
        );
    }
    stubs.len()
}

const CALLS: &str = "#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    if (argc > 1) puts(argv[1]);
    void *memory = malloc(argc);
    printf(\"%p %p\\n\", memory, (void *)free);
    free(memory);
    return abs(rand());
}
";

#[test]
fn stubs_have_the_names_of_what_they_call() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("calls.c");
    std::fs::write(&source, CALLS).unwrap();
    for (options, has_second) in [
        (
            &[
                "-pie",
                "-fcf-protection=full",
                "-Wl,-z,lazy",
                "-Wl,-z,ibtplt",
            ][..],
            true,
        ),
        (&["-pie", "-fcf-protection=none", "-Wl,-z,lazy"], false),
        (&["-pie", "-fcf-protection=none", "-Wl,-z,now"], false),
        (&["-no-pie", "-fcf-protection=none"], false),
    ] {
        let program = directory.path().join("calls");
        let paths = ["-o", program.to_str().unwrap(), source.to_str().unwrap()];
        run(
            &tools::GCC.path(),
            &[&["-O1"], options, &paths[..]].concat(),
        );
        let elf = std::fs::File::open(&program).unwrap();
        let elf = agent::testing::binaries::elf::Elf::read(elf).unwrap();
        assert_eq!(elf.section(".plt.sec").is_some(), has_second);
        let count = compare_stubs(&tools::OBJDUMP.path(), &program);
        assert!(count >= 4, "{options:?} {count}");
    }
}

#[test]
fn stubs_of_shared_pythons_have_names() {
    let mut compared = 0;
    for interpreter in xtask::interpreters::all().unwrap() {
        let program = "import sysconfig as s; v = s.get_config_var; \
                       print(str(v('LIBDIR')) + '/' + str(v('INSTSONAME')))";
        let mut command = std::process::Command::new(&interpreter.path);
        let output = command.args(["-c", program]).output().unwrap();
        let library = String::from_utf8(output.stdout).unwrap();
        let library = Path::new(library.trim());
        if library.is_file() && library.to_string_lossy().contains(".so") {
            compared += compare_stubs(&tools::OBJDUMP.path(), library);
        }
    }
    println!("{compared} stubs compared");
    assert!(compared > 1000);
}
