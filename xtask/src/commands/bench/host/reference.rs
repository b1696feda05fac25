//! What other tools find at addresses of a file: `addr2line` with `nm`; for Go, whose debug information
//! `addr2line` reads in part, `go tool addr2line` and gdb, which has the inlined functions; and gdb for
//! stubs of the procedure linkage table, which have no symbols.
//!
//! `addr2line` takes the symbol before an address even where that has ended. A name without a line
//! therefore counts only where a symbol covers the address.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use xtask::paths;
use xtask::process::capture;
use xtask::tools::go::Go;
use xtask::tools::{ADDR2LINE, GDB, NM};

use super::super::workload::directory;
use crate::commands::observe::pprof::Frame;

/// The functions at each address, the innermost inlined one first; none when there is no name.
pub(super) type Found = BTreeMap<u64, Vec<Frame>>;

/// Looks addresses up with `addr2line`, in the file or the one with its debug information.
pub(super) fn binutils(file: &Path, addresses: &[u64]) -> Result<Found> {
    let mut command = ADDR2LINE.command();
    command.args(["-a", "-f", "-i", "-C", "-e"]).arg(file);
    let text = lookup(command, addresses)?;
    let mut found = parse_binutils(&text);
    let without_line = |frames: &Vec<Frame>| frames.iter().all(|frame| frame.line == 0);
    if found.values().any(without_line) {
        let symbols = Symbols::read(file);
        found.retain(|&address, frames| !without_line(frames) || symbols.cover(address));
    }
    Ok(found)
}

/// Looks addresses up with Go's own tool, and the functions inlined there with gdb.
pub(super) fn go(go: &Go, file: &Path, addresses: &[u64]) -> Result<Found> {
    let mut command = go.command();
    command.args(["tool", "addr2line"]).arg(file);
    let text = lookup(command, addresses)?;
    let functions = gdb(file, addresses, "functions.py", &[])?;
    Ok(merge(functions, parse_go(&text, addresses)))
}

/// The names of the stubs of the procedure linkage table at addresses, as gdb has them.
pub(super) fn stubs(file: &Path, addresses: &[u64]) -> Result<Found> {
    if addresses.is_empty() {
        return Ok(Found::new());
    }
    // Their names come from symbols and relocations.
    gdb(file, addresses, "stubs.py", &["-readnever"])
}

/// Runs a script of gdb's that prints as `addr2line` does.
fn gdb(file: &Path, addresses: &[u64], script: &str, options: &[&str]) -> Result<Found> {
    let list = directory()?.join("addresses");
    fs::write(&list, lines(addresses))
        .with_context(|| format!("cannot write {}", list.display()))?;
    let mut command = GDB.command();
    command
        .args(["-batch", "-nx", "-iex", "set auto-load off"])
        .args(options)
        .arg("-x")
        .arg(paths::workspace().join("xtask/bench/large").join(script))
        .arg(file)
        .env("ADDRESSES", list);
    Ok(parse_binutils(&capture(&mut command)?))
}

/// Adds to what gdb has found the functions that only Go's tool has, and Go's lines.
fn merge(mut functions: Found, of_go: Found) -> Found {
    for (address, frames) in of_go {
        let known = functions.entry(address).or_default();
        match (known.first_mut(), frames.first()) {
            (Some(innermost), Some(frame)) => innermost.line = frame.line,
            _ => *known = frames,
        }
    }
    functions
}

/// The debug file of a build ID below the root of a file system that `root` gives paths in.
pub(super) fn debug_file(build_id: &str, root: impl Fn(&str) -> PathBuf) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let file = root(&format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    file.exists().then_some(file)
}

/// Runs a command with addresses as its input.
fn lookup(mut command: Command, addresses: &[u64]) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let mut input = child.stdin.take().context("a child has no input")?;
    let lines = lines(addresses);
    // Written beside, since the output may fill its pipe before all is read.
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    // A child that has failed closes its input; that is the error to return.
    let _ = writer.join();
    ensure!(
        output.status.success(),
        "{} ended with {}",
        command.get_program().display(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn lines(addresses: &[u64]) -> String {
    let lines: Vec<_> = addresses.iter().map(|it| format!("{it:#x}\n")).collect();
    lines.concat()
}

/// For each address a line with it, then pairs of lines: a function, and file and line.
fn parse_binutils(text: &str) -> Found {
    let mut found = Found::new();
    let mut lines = text.lines();
    let mut address = None;
    while let Some(line) = lines.next() {
        let number = line.strip_prefix("0x");
        if let Some(number) = number.and_then(|it| u64::from_str_radix(it, 16).ok()) {
            address = Some(number);
            continue;
        }
        let (Some(address), Some(place)) = (address, lines.next()) else {
            break;
        };
        if line != "??" {
            found
                .entry(address)
                .or_default()
                .push(frame(line, line_of(place)));
        }
    }
    found
}

/// For each address a pair of lines.
fn parse_go(text: &str, addresses: &[u64]) -> Found {
    let lines: Vec<_> = text.lines().collect();
    let pairs = addresses.iter().zip(lines.chunks_exact(2));
    pairs
        .filter(|(_, pair)| pair[0] != "?")
        .map(|(&address, pair)| (address, vec![frame(pair[0], line_of(pair[1]))]))
        .collect()
}

fn frame(name: &str, line: u32) -> Frame {
    Frame {
        name: name.to_owned(),
        line,
    }
}

/// The line in `FILE:LINE` or `FILE:LINE (discriminator 3)`, else 0.
fn line_of(place: &str) -> u32 {
    let place = place.split(" (").next().unwrap_or_default();
    let line = place.rsplit(':').next().unwrap_or_default();
    line.parse().unwrap_or(0)
}

/// First addresses of symbols, with the first addresses after them.
struct Symbols(BTreeMap<u64, u64>);

impl Symbols {
    /// Symbols of a file: all, else those for the dynamic linker.
    fn read(file: &Path) -> Self {
        let list = |options: &[&str]| {
            let mut command = NM.command();
            command.args(options).arg(file);
            // A file without symbols has none.
            Self::parse(&capture(&mut command).unwrap_or_default())
        };
        let all = list(&["-S", "--defined-only"]);
        if all.0.is_empty() {
            list(&["-D", "-S", "--defined-only"])
        } else {
            all
        }
    }

    /// Lines of address, size, kind and name; those without a size have no kind of code.
    fn parse(text: &str) -> Self {
        let mut symbols = BTreeMap::new();
        for line in text.lines() {
            let mut parts = line.split(' ');
            let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
            if let (Some(start), Some(size)) = (number(), number()) {
                let end: &mut u64 = symbols.entry(start).or_default();
                *end = (*end).max(start.saturating_add(size));
            }
        }
        Self(symbols)
    }

    fn cover(&self, address: u64) -> bool {
        let before = self.0.range(..=address).next_back();
        before.is_some_and(|(_, &end)| address < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inlined_functions_come_first() {
        let text = "0x0000000000001000\ninner\n/a.c:7 (discriminator 2)\nouter\n/a.c:9\n\
                    0x0000000000002000\n??\n??:0\n0x0000000000003000\nname\n??:?\n";
        let found = parse_binutils(text);
        let names = |frames: &[Frame]| -> Vec<_> {
            let pairs = frames.iter().map(|frame| (frame.name.clone(), frame.line));
            pairs.collect()
        };
        assert_eq!(
            names(&found[&0x1000]),
            [("inner".to_owned(), 7), ("outer".to_owned(), 9)]
        );
        assert!(!found.contains_key(&0x2000));
        assert_eq!(names(&found[&0x3000]), [("name".to_owned(), 0)]);
    }

    #[test]
    fn go_has_a_pair_of_lines_for_each_address() {
        let found = parse_go("main.f\n/a.go:3\n?\n?:0\n", &[1, 2]);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[&1][0].name, found[&1][0].line), ("main.f", 3));
    }

    #[test]
    fn lines_are_those_of_gos_tool() {
        let functions = parse_binutils("0x1\ninner\n??:7\nouter\n??:0\n0x2\n");
        let merged = merge(functions, parse_go("outer\n/a.go:8\nf\n/a.go:3\n", &[1, 2]));
        let found: Vec<_> = merged
            .values()
            .map(|frames| (frames.len(), &*frames[0].name, frames[0].line))
            .collect();
        assert_eq!(found, [(2, "inner", 8), (1, "f", 3)]);
    }

    #[test]
    fn a_symbol_covers_what_is_in_it() {
        let symbols =
            Symbols::parse("0000000000001000 0000000000000010 T f\n0000000000002000 T no_size\n");
        assert!(symbols.cover(0x1000) && symbols.cover(0x100f));
        assert!(!symbols.cover(0x1010) && !symbols.cover(0xfff) && !symbols.cover(0x2000));
    }

    #[test]
    fn a_debug_file_has_the_name_of_its_build_id() {
        let directory = tempfile::tempdir().unwrap();
        let root = |file: &str| directory.path().join(&file[1..]);
        let file = root("/usr/lib/debug/.build-id/ab/cd.debug");
        assert_eq!(debug_file("abcd", root), None);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(debug_file("abcd", root), Some(file));
        assert_eq!(debug_file("", root), None);
    }
}
