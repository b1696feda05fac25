//! A C++ program with several hundred megabytes of compressed debug information.
//!
//! Compiling as much would take an hour. One unit of heavy templates is compiled, and its object
//! copied many times with another name for the namespace that everything is in. Names have the same
//! length, so that only the bytes of the name change: in the symbols, which are then other symbols,
//! and in the debug information, which describes other functions of other types. What the linker
//! makes of it is an ordinary program.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::SHELF;
use crate::cache::Site;
use crate::cache::hash;
use crate::tools::GXX;

/// The unit.
const UNIT: &str = include_str!("../../bench/large/unit.cc");

/// The program without its list of units.
const MAIN: &str = include_str!("../../bench/large/main.cc");

/// The namespace in the unit.
const NAMESPACE: &str = "unit_0000";

/// Copies of the unit.
const COPIES: u32 = 100;

/// Instances of the templates in a unit.
const INSTANCES: u32 = 12;

/// What the debug information has at least, compressed.
const LEAST_BYTES: u64 = 200_000_000;

/// The path of the program, made if it is not there.
///
/// # Errors
///
/// When it cannot be made.
pub fn program() -> Result<PathBuf> {
    let numbers = format!("{COPIES} {INSTANCES}");
    let name = format!("bench-cpp-{}", hash([UNIT, MAIN, &numbers]));
    let directory = SHELF.ensure(&name, build)?;
    Ok(directory.join("units"))
}

fn build(site: &Site) -> Result<()> {
    GXX.ensure()?;
    let unit = site.scratch.join("unit.o");
    let source = site.scratch.join("unit.cc");
    fs::write(&source, UNIT)?;
    site.run(
        GXX.command()
            .args(["-std=c++17", "-O2", "-g3", "-gz=none", "-c"])
            .arg(format!("-DINSTANCES={INSTANCES}"))
            .arg(&source)
            .arg("-o")
            .arg(&unit),
    )?;
    let object = fs::read(&unit)?;
    let mut objects = Vec::new();
    for number in 1..=COPIES {
        let path = site.scratch.join(format!("{}.o", namespace(number)));
        fs::write(&path, renamed(&object, &namespace(number)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        objects.push(path);
    }
    let main = site.scratch.join("main.cc");
    fs::write(&main, main_source())?;
    let program = site.unfinished.join("units");
    site.run(
        GXX.command()
            .args([
                "-std=c++17",
                "-O2",
                "-g",
                "-Wl,--compress-debug-sections=zlib",
            ])
            .arg(&main)
            .args(&objects)
            .arg("-o")
            .arg(&program),
    )?;
    check_size(&program)
}

/// The name of a copy's namespace.
fn namespace(number: u32) -> String {
    format!("unit_{number:04}")
}

/// The object with another namespace.
fn renamed(object: &[u8], name: &str) -> Vec<u8> {
    let (from, to) = (NAMESPACE.as_bytes(), name.as_bytes());
    let mut copy = object.to_vec();
    let mut at = 0;
    while let Some(found) = copy.get(at..at + from.len()) {
        if found == from {
            copy[at..at + to.len()].copy_from_slice(to);
            at += to.len();
        } else {
            at += 1;
        }
    }
    copy
}

fn main_source() -> String {
    let mut declarations = String::new();
    let mut list = String::new();
    for name in (1..=COPIES).map(namespace) {
        // Writing to a string does not fail.
        let _ = writeln!(declarations, "namespace {name} {{ long run(unsigned); }}");
        let _ = write!(list, "{name}::run, ");
    }
    MAIN.replace("/* declarations */", &declarations)
        .replace("/* units */", &list)
}

fn check_size(program: &Path) -> Result<()> {
    let bytes = fs::metadata(program)?.len();
    ensure!(
        bytes >= LEAST_BYTES,
        "{} has only {bytes} bytes",
        program.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_copy_is_its_own() {
        let object = b"\0_ZN9unit_00003runEj\0unit_000\0unit_0000";
        assert_eq!(
            renamed(object, &namespace(17)),
            b"\0_ZN9unit_00173runEj\0unit_000\0unit_0017"
        );
    }

    #[test]
    fn the_program_calls_every_unit() {
        let source = main_source();
        assert!(source.contains("namespace unit_0100 { long run(unsigned); }"));
        assert!(source.contains("unit_0001::run, unit_0002::run, "));
        assert!(UNIT.contains("namespace unit_0000 {"));
        assert!(!source.contains("/*"));
    }
}
