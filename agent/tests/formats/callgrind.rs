//! The tables of `callgrind_annotate`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use agent::testing::formats::Format;
use xtask::{packages, process::capture};

use super::{
    encoded, profiles,
    speedscope::{escaped, folded},
};

/// The first number of each row, the number of samples and the function.
fn rows(report: &str) -> Vec<(u64, u64, &str)> {
    let rows = report.lines().filter_map(|line| {
        let (value, rest) = line.split_once(" (")?;
        let (_, rest) = rest.split_once("%)")?;
        let (count, rest) = rest.split_once(" (")?;
        let (_, function) = rest.split_once("%)")?;
        let number = |text: &str| text.trim().replace(',', "").parse().ok();
        Some((number(value)?, number(count)?, function.trim()))
    });
    rows.collect()
}

/// The name in a frame.
fn name(frame: &str) -> String {
    let name = frame.rsplit_once(" (").map_or(frame, |(name, _)| name);
    escaped(name)
}

#[test]
fn its_totals_are_those_of_the_profile() {
    packages::install(&["valgrind"]).unwrap();
    for profile in profiles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("callgrind.out.1");
        fs::write(&path, encoded(&profile, Format::Callgrind)).unwrap();
        for is_inclusive in [false, true] {
            let mut annotate = Command::new("callgrind_annotate");
            annotate.args(["--auto=no", "--threshold=100"]);
            annotate.arg(format!(
                "--inclusive={}",
                ["no", "yes"][usize::from(is_inclusive)]
            ));
            let report = capture(annotate.arg(&path)).unwrap();
            let rows = rows(&report);
            let (value, count, text) = rows[0];
            assert_eq!(text, "PROGRAM TOTALS");
            assert_eq!((value, count), (profile.total_value(), profile.total()));

            let mut functions = BTreeMap::<_, u64>::new();
            for &(value, count, place) in &rows[1..] {
                assert_eq!(value, count * profile.period, "{place}");
                let (_, function) = place.split_once(':').unwrap();
                let (function, _) = function.rsplit_once(" [").unwrap();
                *functions.entry(name(function)).or_default() += count;
            }
            let mut expected = BTreeMap::<_, u64>::new();
            for (mut stack, count) in folded(&profile) {
                // Processes are frames of their own.
                if profile.processes.len() > 1 {
                    let (process, thread) = stack[0].split_once("), ").unwrap();
                    let (process, thread) = (format!("{process})"), thread.to_owned());
                    stack.splice(0..1, [process, thread]);
                }
                let frames = if is_inclusive {
                    &stack[..]
                } else {
                    &stack[stack.len() - 1..]
                };
                let names: BTreeSet<_> = frames.iter().map(|frame| name(frame)).collect();
                for name in names {
                    *expected.entry(name).or_default() += count;
                }
            }
            assert_eq!(functions, expected, "{report}");
        }
    }
}
