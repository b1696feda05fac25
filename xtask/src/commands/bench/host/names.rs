//! Whether the agent names the functions that other tools name, with their lines and the functions
//! inlined into them.
//!
//! Only what is missing counts against the agent: where names or lines differ, the other tool may be
//! wrong, so that differences are shown beside.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use anyhow::Result;

use super::programs::Process;
use super::reference;
use crate::commands::observe::pprof::{Code, Frame};

/// The code of a program that was in its profiles, by file and address.
#[derive(Debug, Default)]
pub(super) struct SampledCode(BTreeMap<File, BTreeMap<u64, Seen>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    path: String,
    build_id: String,
}

/// What the agent has written about an address.
#[derive(Debug)]
struct Seen {
    /// Whether it had no name in some window.
    was_unnamed: bool,
    frames: Vec<Frame>,
    /// Whether the last window with it was one in which lines must be known.
    is_settled: bool,
}

/// The comparison of addresses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) addresses: u64,
    /// Those that a tool names, and of these those that the agent did not name in some window, and
    /// those to which it gave another name.
    pub(super) named: u64,
    pub(super) unnamed: u64,
    pub(super) other_name: u64,
    /// Addresses with a line and of these those without one in the last window, and with another.
    pub(super) with_line: u64,
    pub(super) without_line: u64,
    pub(super) other_line: u64,
    /// Inlined functions, and those of them that were missing in the last window.
    pub(super) inlined: u64,
    pub(super) not_inlined: u64,
}

impl SampledCode {
    /// Adds the code of a window; lines must be known from then on when it is settled.
    pub(super) fn add(&mut self, code: Vec<Code>, is_settled: bool) {
        for code in code {
            let file = File {
                path: code.file,
                build_id: code.build_id,
            };
            let seen = Seen {
                was_unnamed: code.frames.is_empty(),
                frames: code.frames,
                is_settled,
            };
            match self.0.entry(file).or_default().entry(code.address) {
                Entry::Vacant(entry) => {
                    entry.insert(seen);
                }
                Entry::Occupied(mut entry) => {
                    let was_unnamed = entry.get().was_unnamed;
                    let last = entry.get_mut();
                    *last = seen;
                    last.was_unnamed |= was_unnamed;
                }
            }
        }
    }

    /// Looks all addresses up with other tools while the process runs; `differing` gets a line for
    /// each difference.
    pub(super) fn compare(&self, process: &Process, differing: &mut Vec<String>) -> Result<Counts> {
        let mut counts = Counts::default();
        for (file, seen) in &self.0 {
            let addresses: Vec<_> = seen.keys().copied().collect();
            let root = |path: &str| process.path_of(path);
            // The path is that below the root of the process or of this machine.
            let paths = [root(&file.path), PathBuf::from(&file.path)];
            let Some(path) = paths.iter().find(|path| path.exists()) else {
                continue;
            };
            let mut found = if let Some(go) = process.go_of(&file.path) {
                reference::go(go, path, &addresses)?
            } else {
                let with_debug = reference::debug_file(&file.build_id, root);
                reference::binutils(with_debug.as_ref().unwrap_or(path), &addresses)?
            };
            let others: Vec<_> = addresses
                .into_iter()
                .filter(|address| !found.contains_key(address))
                .collect();
            found.extend(reference::stubs(path, &others)?);
            for (address, seen) in seen {
                if let Some(difference) = counts.add(seen, found.get(address)) {
                    let service = process.service;
                    differing.push(format!("{service} {}+{address:#x} {difference}", file.path));
                }
            }
        }
        Ok(counts)
    }
}

impl Counts {
    /// Adds an address with what another tool has found there, if anything. Returns the difference.
    fn add(&mut self, seen: &Seen, expected: Option<&Vec<Frame>>) -> Option<String> {
        self.addresses += 1;
        let expected = expected?;
        let before = *self;
        self.named += 1;
        self.unnamed += u64::from(seen.was_unnamed);
        if let (Some(ours), Some(theirs)) = (seen.frames.last(), expected.last()) {
            self.other_name += u64::from(base(&ours.name) != base(&theirs.name));
        }
        if seen.is_settled {
            self.lines(&seen.frames, expected);
        }
        let is_equal = [
            (self.unnamed, before.unnamed),
            (self.other_name, before.other_name),
            (self.without_line, before.without_line),
            (self.other_line, before.other_line),
            (self.not_inlined, before.not_inlined),
        ]
        .iter()
        .all(|(now, before)| now == before);
        (!is_equal).then(|| format!("agent {} tool {}", text(&seen.frames), text(expected)))
    }

    fn lines(&mut self, ours: &[Frame], theirs: &[Frame]) {
        let line = |frames: &[Frame]| frames.first().map_or(0, |frame| frame.line);
        let (our_line, their_line) = (line(ours), line(theirs));
        if their_line != 0 {
            self.with_line += 1;
            self.without_line += u64::from(our_line == 0);
            self.other_line += u64::from(our_line != 0 && our_line != their_line);
        }
        let inlined = |frames: &[Frame]| frames.len().saturating_sub(1) as u64;
        self.inlined += inlined(theirs);
        self.not_inlined += inlined(theirs).saturating_sub(inlined(ours));
    }

    /// The sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            addresses: self.addresses + other.addresses,
            named: self.named + other.named,
            unnamed: self.unnamed + other.unnamed,
            other_name: self.other_name + other.other_name,
            with_line: self.with_line + other.with_line,
            without_line: self.without_line + other.without_line,
            other_line: self.other_line + other.other_line,
            inlined: self.inlined + other.inlined,
            not_inlined: self.not_inlined + other.not_inlined,
        }
    }
}

fn text(frames: &[Frame]) -> String {
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| format!("{}:{}", frame.name, frame.line))
        .collect();
    format!("[{}]", frames.join(" < "))
}

/// A name without parameters, arguments of templates and suffixes of parts, since tools differ in
/// those: the last part of a name of C++.
fn base(name: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_u32;
    for character in name.chars() {
        match character {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    let last = plain.trim().rsplit("::").next().unwrap_or_default();
    let last = last.rsplit(' ').next().unwrap_or_default();
    // Parts of a function that a C compiler has split, and versions of a symbol.
    let end = [
        ".cold",
        ".part",
        ".constprop",
        ".isra",
        ".lto_priv",
        ".abi0",
        "@",
    ]
    .iter()
    .filter_map(|suffix| last.find(suffix))
    .min();
    last[..end.unwrap_or(last.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(list: &[(&str, u32)]) -> Vec<Frame> {
        let frame = |&(name, line): &(&str, u32)| Frame {
            name: name.to_owned(),
            line,
        };
        list.iter().map(frame).collect()
    }

    fn code(address: u64, list: &[(&str, u32)]) -> Code {
        Code {
            file: "/bin/x".to_owned(),
            build_id: String::new(),
            address,
            frames: frames(list),
            count: 1,
        }
    }

    #[test]
    fn a_name_that_was_missing_once_is_missing() {
        let mut sampled = SampledCode::default();
        sampled.add(vec![code(1, &[])], false);
        sampled.add(vec![code(1, &[("f", 3)]), code(2, &[("f", 4)])], true);
        let seen: Vec<_> = sampled.0.values().flat_map(|all| all.values()).collect();
        assert!(seen[0].was_unnamed && !seen[1].was_unnamed);
        assert!(seen[0].is_settled);
        assert_eq!(seen[0].frames, frames(&[("f", 3)]));
    }

    #[test]
    fn what_is_missing_is_counted_apart_from_what_differs() {
        let seen = |list: &[(&str, u32)], is_settled| Seen {
            was_unnamed: list.is_empty(),
            frames: frames(list),
            is_settled,
        };
        let mut counts = Counts::default();
        let tool = frames(&[("inner", 7), ("outer", 9)]);
        // Nothing is expected where no tool has a name.
        assert_eq!(counts.add(&seen(&[], true), None), None);
        assert_eq!(
            counts.add(&seen(&[("inner", 7), ("outer", 9)], true), Some(&tool)),
            None
        );
        assert!(
            counts
                .add(&seen(&[("outer", 0)], true), Some(&tool))
                .is_some()
        );
        assert!(counts.add(&seen(&[], true), Some(&tool)).is_some());
        // Lines are not expected yet.
        assert_eq!(counts.add(&seen(&[("outer", 0)], false), Some(&tool)), None);
        assert!(
            counts
                .add(&seen(&[("inner", 8), ("other", 9)], true), Some(&tool))
                .is_some()
        );
        let expected = Counts {
            addresses: 6,
            named: 5,
            unnamed: 1,
            other_name: 1,
            with_line: 4,
            without_line: 2,
            other_line: 1,
            inlined: 4,
            not_inlined: 2,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.plus(counts).inlined, 8);
    }

    #[test]
    fn names_are_compared_without_what_tools_differ_in() {
        assert_eq!(base("std::map<int, long>::at(int const&)"), "at");
        assert_eq!(base("void unit::f<3>(int) [clone .cold]"), "f");
        assert_eq!(base("dict_get.constprop.0"), "dict_get");
        assert_eq!(base("k8s.io/a.(*Scheme).New"), "k8s.io/a..New");
        assert_eq!(base("main.sort[...]"), base("main.sort[go.shape.int]"));
    }
}
