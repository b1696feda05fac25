//! Words that the project has retired, so that they do not come back.
//!
//! The project speaks the language of its field; `agent/docs/renamed.md` has what replaced them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases, in any case.
const PHRASES: &[&str] = &[
    "kernel half",
    "user half",
    "host's half",
    "put into words",
    "puts frames into words",
    "takes notice",
    "take notice",
    "makes no sense",
    "makes sense",
    "whose tick",
    "likewise",
    "is remembered of",
    "not whole",
    "habit",
];

/// Names, as whole words.
const NAMES: &[&str] = &[
    "FollowedCode",
    "Generations",
    "Held",
    "KERNEL_ALONE",
    "KernelHidden",
    "LINKAGE",
    "NativeEnd",
    "NativeNames",
    "Parcel",
    "Population",
    "STUCK",
    "Trust",
    "WalkEnd",
    "agent_export_waiting",
    "agent_processors",
    "agent_remembered",
    "begin_pull",
    "cut_stacks",
    "decide_again",
    "describe_frames",
    "follow_processors",
    "forget_ended",
    "give_memory_back",
    "greatest_age",
    "keep_memory_small",
    "known_since_ns",
    "leave_handler",
    "learn_pods",
    "look_at_stack",
    "meet_thread",
    "passed_over",
    "recall_thread",
    "report_kept",
    "run_host",
    "send_again",
    "settle_frames",
    "survive",
    "tell_stack",
    "unfollowed",
    "whole_stacks",
];

/// Folders and files of the project that are text of its own.
const TEXTS: &[&str] = &[
    "README.md",
    "Cargo.toml",
    "agent",
    "agent-common",
    "agent-ebpf",
    "deploy",
    "xtask",
];

/// Source and prose; recorded data is none.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "yaml", "service", "conf", "py"];

/// Files that list old words beside the new ones.
const EXCEPT: &[&str] = &[
    "agent/docs/changelog.md",
    "agent/docs/renamed.md",
    "xtask/architecture/tests/words.rs",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether `name` stands in `line` as a whole word.
fn has_word(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(start, _)| {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        !line[..start].ends_with(is_part) && !line[start + name.len()..].starts_with(is_part)
    })
}

#[test]
fn retired_words_do_not_come_back() {
    let workspace = workspace();
    let below = |text| architecture::files(&workspace.join(text), EXTENSIONS).unwrap();
    let files: Vec<_> = TEXTS.iter().flat_map(below).collect();
    assert!(files.len() > 300, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&workspace).unwrap().to_owned();
        if EXCEPT.iter().any(|except| name == Path::new(except)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let phrases = PHRASES.iter().filter(|phrase| has_word(&lower, phrase));
            let names = NAMES.iter().filter(|name| has_word(line, name));
            for word in phrases.chain(names) {
                found.push(format!("{}:{}: {word}", name.display(), number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "retired words, see agent/docs/renamed.md for what replaces them:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_word_is_found_as_a_whole_only() {
    assert!(has_word("the kernel half.", "kernel half"));
    assert!(!has_word("the kernel halfway", "kernel half"));
    assert!(has_word("is_told(x)", "is_told"));
    assert!(!has_word("this_is_told(x)", "is_told"));
}
