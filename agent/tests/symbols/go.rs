//! Go programs, whose table of functions has the names even without symbols.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    path::Path,
};

use agent::testing::symbolize::elf_symbols::{ElfSymbols, SymbolFrame, SymbolLimits};
use tempfile::TempDir;
use xtask::tools::{
    self,
    go::{self, Go},
};

use crate::{frames, lookup, symbols};

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/end_to_end/workloads/mixed.go"
);

/// The first minor version whose linker leaves names in the table as they are.
const WITH_FULL_NAMES: u32 = 21;

/// The first minor version that writes DWARF 5.
const WITH_DWARF_5: u32 = 25;

/// The symbols of code according to `nm`: by address, the names as the linker of `go` writes them
/// to its table.
fn functions(go: &Go, program: &Path) -> BTreeMap<u64, BTreeSet<String>> {
    let output = tools::NM.command().arg("-S").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut functions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        if let [address, _, "t" | "T", name] = fields[..] {
            let address = u64::from_str_radix(address, 16).unwrap();
            // Some have a variant for each calling convention; the suffix is not part of the name.
            let name = name.strip_suffix(".abi0").unwrap_or(name);
            let name = if go.minor() < WITH_FULL_NAMES {
                short(name)
            } else {
                name.to_owned()
            };
            functions.entry(address).or_default().insert(name);
        }
    }
    functions
}

/// A name without type arguments, as older linkers shorten it.
fn short(name: &str) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}[...]{}", &name[..start], &name[end + 1..])
        }
        _ => name.to_owned(),
    }
}

/// The outermost function that is found at an address, with dots as the linker writes them to the
/// symbol table: the table of functions has the middle dot that the compiler puts before a number.
fn name(symbols: &mut ElfSymbols, address: u64) -> Option<String> {
    let found = symbols.find(address);
    Some(frames(&found).last()?.name.replace('·', "."))
}

#[test]
fn go_functions_have_names_without_symbols() {
    for go in go::all().unwrap() {
        println!("go {}", go.version());
        compare(&go);
    }
}

fn compare(go: &Go) {
    let directory = TempDir::new().unwrap();
    let [complete, stripped] = ["whole", "stripped"].map(|name| directory.path().join(name));
    let mut compiler = go.command();
    compiler.args(["build", "-o"]).arg(&complete).arg(SOURCE);
    assert!(compiler.status().unwrap().success());
    let mut strip = tools::OBJCOPY.command();
    strip.arg("--strip-all").arg(&complete).arg(&stripped);
    assert!(strip.status().unwrap().success());

    let functions = functions(go, &complete);
    assert!(functions.len() > 1000);
    let mut of_complete = symbols(&complete, &SymbolLimits::default());
    let mut of_stripped = symbols(&stripped, &SymbolLimits::default());
    let mut compared = 0;
    for (address, names) in functions {
        let Some(found) = name(&mut of_stripped, address) else {
            // The end of all code has a symbol too.
            assert!(names.contains("runtime.etext"), "{names:?}");
            continue;
        };
        assert!(names.contains(&found), "{found} of {names:?}");
        assert_eq!(name(&mut of_complete, address).unwrap(), found);
        compared += 1;
    }
    println!("{compared} functions compared");
    assert!(compared > 1000);
}

/// A function, its file and its line.
type Place = (String, String, u32);

/// The functions at addresses according to binutils, which reads debugging information.
fn by_debug_information(program: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let mut command = tools::ADDR2LINE.command();
    command.args(["-a", "-f", "-i", "-e"]).arg(program);
    let text = lookup(&mut command, addresses);
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            found.push(Vec::new());
            continue;
        }
        let (file, number) = lines.next().unwrap().rsplit_once(':').unwrap();
        let number = number.split(' ').next().unwrap();
        let place = (
            short(line),
            file.to_owned(),
            number.parse().unwrap_or_default(),
        );
        found.last_mut().unwrap().push(place);
    }
    found
}

/// The innermost files and lines of addresses according to `go tool addr2line`.
fn by_go(go: &Go, program: &Path, addresses: &[u64]) -> Vec<(String, u32)> {
    let mut command = go.command();
    command.args(["tool", "addr2line"]).arg(program);
    let text = lookup(&mut command, addresses);
    let lines = text.lines().skip(1).step_by(2);
    let lines = lines.map(|line| line.rsplit_once(':').unwrap());
    lines
        .map(|(file, line)| (file.to_owned(), line.parse().unwrap_or_default()))
        .collect()
}

/// Addresses spread over the Go functions of a program.
fn spread(go: &Go, program: &Path) -> Vec<u64> {
    let starts: Vec<u64> = functions(go, program).into_keys().collect();
    let between = starts.windows(2).flat_map(|pair| {
        let bytes = (pair[1] - pair[0]).min(0x4000);
        [0, bytes / 3, bytes / 2, bytes * 4 / 5].map(|into| pair[0] + into)
    });
    let mut addresses: Vec<u64> = between.collect();
    addresses.dedup();
    addresses
}

/// The frames at addresses, the innermost first.
fn places(program: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let found = symbols(program, &SymbolLimits::default()).find_all(addresses);
    let place = |frame: &SymbolFrame| {
        (
            short(&frame.name),
            frame.file.clone().unwrap_or_default(),
            frame.line.map_or(0, NonZeroU32::get),
        )
    };
    let found = found
        .iter()
        .map(|found| frames(found).iter().map(place).collect());
    found.collect()
}

#[test]
fn stripped_go_programs_have_lines_and_inlined_functions() {
    for go in go::all().unwrap() {
        for options in [
            &[][..],
            &["-buildmode=pie"],
            &["-buildmode=pie", "-ldflags=-linkmode=external"],
        ] {
            println!("go {} {options:?}", go.version());
            let directory = TempDir::new().unwrap();
            let program = directory.path().join("program");
            let mut compiler = go.command();
            compiler.arg("build").args(options).arg("-o").arg(&program);
            if go.minor() >= WITH_DWARF_5 {
                // Binutils 2.40 finds no lines in Go's DWARF 5.
                compiler.env("GOEXPERIMENT", "nodwarf5");
            }
            assert!(compiler.arg(SOURCE).status().unwrap().success());
            let compared = compare_lines(&go, &program, directory.path());
            // The tool of Go does not find the table of a position-independent executable.
            if options.is_empty() {
                let addresses: Vec<u64> = compared.iter().map(|(address, _)| *address).collect();
                let expected = by_go(&go, &program, &addresses);
                assert_eq!(expected.len(), compared.len());
                for ((address, places), (file, line)) in compared.iter().zip(expected) {
                    let (_, found, number) = &places[0];
                    assert_eq!((found, *number), (&file, line), "{address:#x}");
                }
            }
        }
    }
}

/// Compares the frames of a program, stripped and not, with those of its debugging information;
/// returns those that have lines, all of them in Go.
fn compare_lines(go: &Go, complete: &Path, directory: &Path) -> Vec<(u64, Vec<Place>)> {
    let stripped = directory.join("stripped");
    let mut strip = tools::OBJCOPY.command();
    strip.arg("--strip-all").arg(complete).arg(&stripped);
    assert!(strip.status().unwrap().success());
    let addresses = spread(go, complete);
    let of_complete = places(complete, &addresses);
    let of_stripped = places(&stripped, &addresses);
    let expected = by_debug_information(complete, &addresses);
    assert_eq!(expected.len(), addresses.len());
    let mut compared = Vec::new();
    for (index, found) in of_stripped.into_iter().enumerate() {
        // Others are in C.
        if found.first().is_some_and(|(_, file, _)| !file.is_empty()) {
            assert_eq!(found, of_complete[index]);
            compared.push((addresses[index], found, &expected[index]));
        }
    }
    let is_same = |found: &[Place], expected: &[Place]| {
        let Some(((symbol, _, last), inlined)) = found.split_last() else {
            return false;
        };
        // Binutils gives the innermost inlined function the name of the symbol, as `compare` says.
        let is_same_call = |(one, other): (&Place, &Place)| {
            (one.2 == other.2) && (one.0 == other.0 || other.0 == *symbol)
        };
        found.len() == expected.len()
            && inlined.iter().zip(expected).all(is_same_call)
            && expected.last().is_some_and(|expected| expected.2 == *last)
    };
    for (address, found, expected) in &compared {
        // Binutils has no line for code that the compiler generated.
        let is_generated = found.iter().any(|(_, file, _)| file == "<autogenerated>");
        assert!(
            is_generated || is_same(found, expected),
            "{address:#x} {found:?} {expected:?}"
        );
    }
    let inlined = compared.iter().filter(|(_, found, _)| found.len() > 1);
    let inlined = inlined.count();
    println!(
        "{} compared, {inlined} with inlined functions",
        compared.len()
    );
    assert!(compared.len() > 4000 && inlined > 300);
    let compared = compared.into_iter();
    compared
        .map(|(address, found, _)| (address, found))
        .collect()
}
