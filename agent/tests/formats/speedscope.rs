//! speedscope's importers, without its web page.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use agent::testing::{formats::Format, profile::Profile};
use xtask::{process::capture, reference_tools, tools};

use super::{encoded, profiles, timed_profiles};

/// A profile that it has read.
#[derive(serde::Deserialize)]
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) total: f64,
    frames: Vec<Frame>,
    /// Indices of frames, root first, and the weight.
    stacks: Vec<(Vec<usize>, f64)>,
}

#[derive(serde::Deserialize)]
struct Frame {
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

impl Read {
    /// Stacks whose frames have these texts, the root first, and their weights.
    fn stacks(&self, text: impl Fn(&Frame) -> String) -> BTreeMap<Vec<String>, f64> {
        let mut stacks = BTreeMap::new();
        for (stack, weight) in &self.stacks {
            let stack = stack.iter().map(|index| text(&self.frames[*index]));
            *stacks.entry(stack.collect()).or_default() += weight;
        }
        // Where nothing ran.
        stacks.remove(&Vec::new());
        stacks
    }

    /// Stacks of functions, and their weights.
    pub(crate) fn functions(&self) -> BTreeMap<Vec<String>, f64> {
        self.stacks(|frame| function(&frame.name))
    }
}

/// What it reads in a file with this name.
pub(crate) fn read(name: &str, bytes: &[u8]) -> Vec<Read> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    let bundle = reference_tools::speedscope().unwrap_or_else(|error| panic!("{error:#}"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/speedscope.js");
    let mut node = Command::new(tools::node().unwrap());
    let output = capture(node.arg(script).args([bundle, path])).unwrap();
    serde_json::from_str(&output).unwrap()
}

/// The folded stacks of a profile, with processes and threads in one frame as names of profiles have them, and
/// without suffixes of frames.
pub(crate) fn folded(profile: &Profile) -> BTreeMap<Vec<String>, u64> {
    let text = String::from_utf8(encoded(profile, Format::Folded)).unwrap();
    let mut stacks = BTreeMap::new();
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let frames = stack.split(';').map(|frame| {
            let suffixes = ["_[k]", "_[j]", "_[i]"];
            let mut names = suffixes.iter().filter_map(|it| frame.strip_suffix(it));
            names.next().unwrap_or(frame).replace("\\#", "#")
        });
        let mut frames: Vec<_> = frames.collect();
        if profile.processes.len() > 1 {
            let process = frames.remove(0);
            frames[0] = format!("{process}, {}", frames[0]);
        }
        let count: u64 = count.parse().unwrap();
        *stacks.entry(frames).or_default() += count;
    }
    stacks
}

/// The name of the function in a frame, without its file and what importers add to it.
pub(crate) fn function(frame: &str) -> String {
    let name = frame.split_once(" {\"").map_or(frame, |(name, _)| name);
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    escaped(name)
}

/// As folded stacks have it.
pub(crate) fn escaped(text: &str) -> String {
    text.trim().replace(';', ":")
}

#[test]
fn it_reads_all_stacks_of_all_threads_of_its_own_format() {
    for profile in profiles().into_iter().chain(timed_profiles()) {
        let bytes = encoded(&profile, Format::Speedscope);
        let mut stacks = BTreeMap::new();
        for read in read("a.speedscope.json", &bytes) {
            assert_eq!(read.unit, "nanoseconds");
            let of_thread = read.stacks(|frame| match (&frame.file, frame.line) {
                // A Python frame; lines of others are not in folded stacks.
                (Some(file), Some(line)) if frame.name.ends_with(&format!(":{line})")) => {
                    let (name, short) = frame.name.rsplit_once(" (").unwrap();
                    let start = short.rsplit_once(':').unwrap().0;
                    assert!(file.ends_with(start), "{file} {start}");
                    escaped(&format!("{} ({file}:{line})", name.trim()))
                }
                // One without a line.
                (Some(file), None) if frame.name.ends_with(".py)") => {
                    let (name, _) = frame.name.rsplit_once(" (").unwrap();
                    escaped(&format!("{name} ({file})"))
                }
                _ => escaped(&frame.name),
            });
            let sum: f64 = of_thread.values().sum();
            let gaps = read.total - sum;
            assert_eq!(gaps > 0.5, profile.timeline.is_some(), "{sum} {gaps}");
            for (mut stack, weight) in of_thread {
                stack.insert(0, escaped(&read.name));
                stacks.insert(stack, weight);
            }
        }
        let expected = folded(&profile);
        let period = profile.period;
        let expected = expected.into_iter().map(|(stack, count)| {
            // In nanoseconds; all fit.
            let value = u32::try_from(count * period / 1000).unwrap();
            (stack, f64::from(value) * 1e3)
        });
        assert_eq!(stacks, expected.collect());
    }
}
