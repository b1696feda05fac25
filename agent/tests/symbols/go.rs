//! Go programs, whose table of functions has the names even without symbols.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use agent::testing::symbolize::elf_symbols::{ElfSymbols, SymbolLimits};
use tempfile::TempDir;
use xtask::tools::{
    self,
    go::{self, Go},
};

use crate::{frames, symbols};

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/end_to_end/workloads/mixed.go"
);

/// The first minor version whose linker leaves names in the table as they are.
const WITH_FULL_NAMES: u32 = 21;

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
