//! Of random samples, how many native stacks lead to the entry of their process or thread.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use xtask::process::capture;

use super::{
    capture::Capture,
    folded::{Folded, Frame, NO_NATIVE},
    machine,
    target::{Target, mortal, workload_path},
};

/// Of how many samples one may lack native frames.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 100;

/// Samples that are enough to tell it.
const ENOUGH: u64 = 1000;

/// Captures after which there is not going to be enough.
const MOST_CAPTURES: usize = 20;

#[test]
fn of_python() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "mixed");
        assert_rate(&interpreter.name, &target);
    });
}

#[test]
fn of_javascript_and_its_compiler() {
    let _machine = machine::alone();
    let target = Target::from_command({
        let mut node = mortal("node");
        node.arg(source("mixed.js"));
        node
    });
    assert_rate("node", &target);
}

#[test]
fn of_go_with_and_without_symbols() {
    let _machine = machine::alone();
    let room = TempDir::new().unwrap();
    for flags in ["", "-s -w"] {
        let program = build_go(&room, "mixed.go", flags);
        assert_rate(
            &format!("go {flags}"),
            &Target::from_command(mortal(&program)),
        );
    }
}

#[test]
fn of_go_on_the_stacks_of_its_scheduler() {
    let _machine = machine::alone();
    let room = TempDir::new().unwrap();
    for flags in ["", "-s -w"] {
        let program = build_go(&room, "other_stacks.go", flags);
        let folded = assert_rate(
            &format!("go on other stacks {flags}"),
            &Target::from_command(mortal(&program)),
        );
        for [outer, inner] in [
            ["main.sortInC", "runtime.asmcgocall"],
            ["main.readTheClock", "time.now"],
        ] {
            let has = |stack: &[Frame], name| stack.iter().any(|frame| frame.name.contains(name));
            let all = folded.count(|stack| has(stack, inner));
            let whole = folded.count(|stack| has(stack, inner) && has(stack, outer));
            println!("{inner}: {whole} of {all} lead to {outer}");
            assert!(all >= ENOUGH / 20, "{inner}: {all}");
            let lost = all - whole;
            assert!(
                lost * SAMPLES_FOR_ONE_INCOMPLETE <= all,
                "{inner}: {lost} of {all}: {}",
                folded.show(|stack| has(stack, inner) && !has(stack, outer))
            );
        }
    }
}

#[test]
fn of_rust_without_frame_pointers() {
    let _machine = machine::alone();
    let room = TempDir::new().unwrap();
    let program = room.path().join("mixed");
    let mut compiler = Command::new("rustc");
    compiler
        .args(["--edition=2021", "-O", "-Cforce-frame-pointers=no", "-o"])
        .arg(&program)
        .arg(source("mixed.rs"));
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    assert_rate("rust", &Target::from_command(mortal(&program)));
}

/// A Go program, linked with these flags.
fn build_go(room: &TempDir, name: &str, flags: &str) -> PathBuf {
    let program = room.path().join(format!("program{}", flags.len()));
    let mut compiler = Command::new("go");
    compiler
        .args(["build", "-ldflags", flags, "-o"])
        .arg(&program)
        .arg(source(name))
        .envs([("GOCACHE", room.path().join("cache"))])
        .env("GO111MODULE", "off");
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    program
}

/// Of [`SAMPLES_FOR_ONE_INCOMPLETE`] stacks at most one is incomplete; returns all of them.
fn assert_rate(name: &str, target: &Target) -> Folded {
    let is_cut = |stack: &[Frame]| stack.iter().any(|frame| frame.name.starts_with(NO_NATIVE));
    let mut folded = Folded::default();
    for _ in 0..MOST_CAPTURES {
        folded.add(Capture::whole(target.pid(), "-d 1.5 -r 997"));
        if folded.total() >= ENOUGH {
            break;
        }
    }
    let cut = folded.count(is_cut);
    println!("{name}: {cut} of {} stacks are cut", folded.total());
    assert!(
        folded.total() >= ENOUGH,
        "{name}: {} samples",
        folded.total()
    );
    assert!(
        cut * SAMPLES_FOR_ONE_INCOMPLETE <= folded.total(),
        "{name}: {cut} of {}: {}",
        folded.total(),
        folded.show(is_cut)
    );
    folded
}

/// The source of a workload in another language than Python.
fn source(name: &str) -> PathBuf {
    let python = workload_path("mixed");
    python
        .parent()
        .map_or_else(PathBuf::new, Path::to_owned)
        .join(name)
}
