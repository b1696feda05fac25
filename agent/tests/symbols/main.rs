//! Symbols of addresses in ELF files, compared with binutils, for files that are complete,
//! stripped, compressed or malformed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod compare;
mod go;
mod names;
mod stripped;

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agent::testing::{
    binaries::elf::{DebugFiles, Elf},
    process::Process,
    symbolize::elf_symbols::{ElfSymbols, SymbolFrame, SymbolLimits, SymbolLookup},
};
use xtask::tools;

const CPP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/inlining.cpp");
const NESTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nested.c");
const RUST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/inlining.rs");

/// Runs a command to its end.
fn run(program: &Path, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{} {arguments:?}", program.display());
}

/// Compiles the C++ program.
fn compile_cpp(directory: &Path, options: &[&str]) -> PathBuf {
    let program = directory.join("program");
    let path = program.to_str().unwrap();
    run(
        &tools::GXX.path(),
        &[&["-O2", "-o", path, CPP], options].concat(),
    );
    program
}

/// The symbols of a file in the root of this process.
fn symbols(path: &Path, limits: &SymbolLimits) -> ElfSymbols {
    let elf = Elf::read(File::open(path).unwrap()).unwrap();
    let process = Process::open(std::process::id()).unwrap();
    ElfSymbols::load(elf, Some(DebugFiles::of(&process, path)), limits)
}

fn frames(found: &SymbolLookup) -> &[SymbolFrame] {
    match found {
        SymbolLookup::Known(frames) => frames,
        SymbolLookup::Unknown(_) => &[],
    }
}

/// Addresses in the functions of a file, evenly spread: about `count` of them.
fn addresses(path: &Path, count: usize) -> Vec<u64> {
    let arguments = ["-S", "--defined-only", path.to_str().unwrap()];
    let output = tools::NM.command().args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut functions: Vec<(u64, u64)> = text
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [address, bytes, kind, _] = fields[..] else {
                return None;
            };
            let number = |text| u64::from_str_radix(text, 16).ok();
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            is_code.then_some((number(address)?, number(bytes)?))
        })
        .collect();
    functions.sort_unstable();
    functions.dedup_by_key(|(address, _)| *address);
    let total: u64 = functions.iter().map(|(_, bytes)| bytes).sum();
    let step = (total / count as u64).max(1);
    let mut addresses = Vec::new();
    let mut next = 0;
    let mut start = 0;
    for (address, bytes) in functions {
        while next < start + bytes {
            addresses.push(address + next - start);
            next += step;
        }
        start += bytes;
    }
    addresses
}

/// The output of a tool that reads addresses from its standard input, one per line.
fn lookup(command: &mut Command, addresses: &[u64]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: Vec<String> = addresses.iter().map(|it| format!("{it:#x}\n")).collect();
    // The output may fill the pipe before the input is written.
    let writer = std::thread::spawn(move || input.write_all(text.concat().as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
