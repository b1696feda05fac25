//! The model of profiles of Chromium's developer tools.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use agent::testing::formats::Format;
use xtask::{process::capture, reference_tools, tools};

use agent::testing::profile::Profile;

use super::{encoded, profiles, speedscope::folded, timed_profiles};

/// A node that has samples of its own.
#[derive(serde::Deserialize)]
struct Node {
    /// Names of the functions, root first.
    stack: Vec<String>,
    /// Milliseconds of its own, by its hits.
    own: f64,
    /// Milliseconds of its samples in the order of time.
    shown: f64,
}

/// The name in a frame.
fn name(frame: &str) -> String {
    let name = frame.rsplit_once(" (").map_or(frame, |(name, _)| name);
    name.trim().replace(';', ":")
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

/// The nodes that it reads.
fn nodes(profile: &Profile) -> Vec<Node> {
    let package = reference_tools::trace_engine().unwrap_or_else(|error| panic!("{error:#}"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cpuprofile");
    fs::write(&path, encoded(profile, Format::CpuProfile)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cpuprofile.mjs");
    let mut node = Command::new(tools::node().unwrap());
    let output = capture(node.arg(script).args([&package, &path])).unwrap();
    serde_json::from_str(&output).unwrap()
}

#[test]
fn chromium_reads_all_stacks_with_their_time() {
    for profile in profiles().into_iter().chain(timed_profiles()) {
        let mut nodes = nodes(&profile);
        let idle: Vec<_> = nodes
            .extract_if(.., |node| node.stack == ["(idle)"])
            .collect();
        assert_eq!(idle.is_empty(), profile.timeline.is_none());
        let mut read = BTreeMap::<Vec<String>, f64>::new();
        for node in nodes {
            assert!(is_near(node.own, node.shown), "{:?}", node.stack);
            let stack = node.stack.iter().map(|frame| name(frame)).collect();
            *read.entry(stack).or_default() += node.own;
        }
        let mut expected = BTreeMap::<Vec<String>, f64>::new();
        for (mut stack, count) in folded(&profile) {
            // Processes are frames of their own.
            if profile.processes.len() > 1 {
                let (process, thread) = stack[0].split_once("), ").unwrap();
                let (process, thread) = (format!("{process})"), thread.to_owned());
                stack.splice(0..1, [process, thread]);
            }
            let milliseconds = u32::try_from(count * profile.period / 1_000_000).unwrap();
            let stack = stack.iter().map(|frame| name(frame)).collect();
            *expected.entry(stack).or_default() += f64::from(milliseconds);
        }
        let stacks = |of: &BTreeMap<Vec<String>, f64>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(stacks(&read), stacks(&expected));
        for (stack, time) in read {
            assert!(is_near(time, expected[&stack]), "{stack:?}: {time}");
        }
    }
}
