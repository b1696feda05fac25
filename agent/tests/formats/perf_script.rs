//! The text of `perf script`: by the rules of the scripts of `FlameGraph`, and by speedscope's importer.

use std::collections::{BTreeMap, BTreeSet};

use agent::testing::{formats::Format, profile::Profile};
use regex::Regex;

use super::{
    encoded,
    speedscope::{folded, function, read},
    timed_profiles,
};

/// Stacks of functions, the thread first, with the sum of their periods.
fn stacks(text: &str) -> BTreeMap<Vec<String>, u64> {
    // As in `stackcollapse-perf.pl`, with the fields that it does not look at.
    let event = Regex::new(r"^(\S.+?)\s+(\d+)/(\d+)\s+(\d+)\.(\d{9}):\s+(\d+) (\S+):$").unwrap();
    let frame = Regex::new(r"^\s*([0-9a-f]+)\s(.+) \((\S*)\)$").unwrap();
    let mut stacks = BTreeMap::new();
    let mut last_ns = 0;
    for record in text.split_terminator("\n\n") {
        let (head, frames) = record.split_once('\n').unwrap();
        let fields = event.captures(head).unwrap_or_else(|| panic!("{head}"));
        let number = |nth: usize| fields[nth].parse::<u64>().unwrap();
        let time_ns = number(4) * 1_000_000_000 + number(5);
        assert!(time_ns >= last_ns, "{head}");
        last_ns = time_ns;
        let frames = frames.lines().map(|line| {
            let fields = frame.captures(line).unwrap_or_else(|| panic!("{line}"));
            function(&fields[2])
        });
        let mut stack: Vec<_> = frames.collect();
        stack.push(fields[3].to_owned());
        stack.reverse();
        *stacks.entry(stack).or_default() += number(6);
    }
    stacks
}

/// The same of the folded stacks, with the ids of threads.
fn expected(profile: &Profile) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for (stack, count) in folded(profile) {
        let (_, id) = stack[0].rsplit_once(" (").unwrap();
        let thread = id.trim_end_matches(')').to_owned();
        let functions = stack[1..].iter().map(|frame| function(frame));
        let stack = [thread].into_iter().chain(functions).collect();
        *stacks.entry(stack).or_default() += count * profile.period;
    }
    stacks
}

#[test]
fn scripts_read_all_stacks_with_their_time() {
    for profile in timed_profiles() {
        let text = String::from_utf8(encoded(&profile, Format::PerfScript)).unwrap();
        assert_eq!(stacks(&text), expected(&profile));
    }
}

#[test]
fn speedscope_reads_all_stacks() {
    for profile in timed_profiles() {
        let bytes = encoded(&profile, Format::PerfScript);
        let mut stacks = BTreeSet::new();
        for thread in read("a.linux-perf.txt", &bytes) {
            assert_eq!(thread.unit, "seconds");
            stacks.extend(thread.functions().into_keys());
        }
        // It removes offsets of functions.
        let without_offset = |name: &String| match name.split_once("+0x") {
            Some((name, _)) => name.to_owned(),
            None => name.clone(),
        };
        let expected = expected(&profile).into_keys();
        let expected: BTreeSet<Vec<_>> = expected
            .map(|stack| stack[1..].iter().map(without_offset).collect())
            .collect();
        assert_eq!(stacks, expected);
    }
}
