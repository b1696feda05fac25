//! Go programs, which know the names of their functions without symbols.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use agent::testing::symbolize::elf_symbols::{ElfSymbols, SymbolLimits};

use crate::{frames, symbols};

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/end_to_end/workloads/mixed.go"
);

/// What `nm` says of the symbols of code: their names by address.
fn functions(program: &Path) -> BTreeMap<u64, BTreeSet<String>> {
    let output = Command::new("nm").arg("-S").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut functions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        if let [address, _, "t" | "T", name] = fields[..] {
            let address = u64::from_str_radix(address, 16).unwrap();
            // Some are called with registers in two ways, which is no part of the name.
            let name = name.strip_suffix(".abi0").unwrap_or(name);
            functions.entry(address).or_default().insert(short(name));
        }
    }
    functions
}

/// A name without the arguments of types, as the Go linker shortens it.
fn short(name: &str) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}[...]{}", &name[..start], &name[end + 1..])
        }
        _ => name.to_owned(),
    }
}

/// The outermost function that is found at an address.
fn name(symbols: &mut ElfSymbols, address: u64) -> Option<String> {
    let found = symbols.find(address);
    Some(frames(&found).last()?.name.clone())
}

#[test]
fn functions_of_go_have_names_without_symbols() {
    let directory = tempfile::tempdir().unwrap();
    let [whole, stripped] = ["whole", "stripped"].map(|name| directory.path().join(name));
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&whole).arg(SOURCE);
    compiler.env("GO111MODULE", "off");
    compiler.env("GOCACHE", directory.path().join("cache"));
    assert!(compiler.status().unwrap().success());
    let mut strip = Command::new("objcopy");
    strip.arg("--strip-all").arg(&whole).arg(&stripped);
    assert!(strip.status().unwrap().success());

    let functions = functions(&whole);
    assert!(functions.len() > 1000);
    let mut of_whole = symbols(&whole, &SymbolLimits::default());
    let mut of_stripped = symbols(&stripped, &SymbolLimits::default());
    let mut compared = 0;
    for (address, names) in functions {
        let Some(found) = name(&mut of_stripped, address) else {
            // The end of all code has a symbol too.
            assert!(names.contains("runtime.etext"), "{names:?}");
            continue;
        };
        assert!(names.contains(&found), "{found} of {names:?}");
        assert_eq!(name(&mut of_whole, address).unwrap(), found);
        compared += 1;
    }
    assert!(compared > 1000);
}
