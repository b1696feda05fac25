//! Of random samples, how many native stacks lead to the entry of their process or thread.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use xtask::{
    process::capture,
    tools::{
        self,
        go::{self, Go},
    },
};

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

/// The minor version of Go from which on functions are inlined into goroutines that begin with them.
const WITH_INLINED_GOROUTINES: u32 = 26;

/// Go programs with and without symbols.
const GO_FLAGS: [&str; 2] = ["", "-s -w"];

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
        let mut node = mortal(tools::node().unwrap());
        node.arg(source("mixed.js"));
        node
    });
    assert_rate("node", &target);
}

#[test]
fn of_go_with_and_without_symbols() {
    let _machine = machine::alone();
    for go in go::all().unwrap() {
        let room = TempDir::new().unwrap();
        for flags in GO_FLAGS {
            let program = build_go(&go, &room, "mixed.go", flags);
            assert_rate(
                &format!("go {} {flags}", go.version()),
                &Target::from_command(mortal(&program)),
            );
        }
    }
}

#[test]
fn of_go_on_the_stacks_of_its_scheduler() {
    let _machine = machine::alone();
    for go in go::all().unwrap() {
        let room = TempDir::new().unwrap();
        for flags in GO_FLAGS {
            let program = build_go(&go, &room, "other_stacks.go", flags);
            let folded = assert_rate(
                &format!("go {} on other stacks {flags}", go.version()),
                &Target::from_command(mortal(&program)),
            );
            assert_goroutines(&go, flags, &folded);
        }
    }
}

/// The functions of the goroutines, by the names that are left of them. Newer compilers inline
/// `sortInC`, which does little itself, into what they make of its `go` statement, and only
/// debugging information names what is inlined.
fn outer_functions(go: &Go, flags: &str) -> [&'static str; 2] {
    let sort = if go.minor() >= WITH_INLINED_GOROUTINES && flags.contains("-w") {
        "main.main.gowrap1"
    } else {
        "main.sortInC"
    };
    [sort, "main.readTheClock"]
}

/// Of the samples on a stack of the scheduler nearly all lead to the function of the goroutine.
fn assert_goroutines(go: &Go, flags: &str, folded: &Folded) {
    let [sort, clock] = outer_functions(go, flags);
    for [outer, inner] in [[sort, "runtime.asmcgocall"], [clock, "time.now"]] {
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

#[test]
fn of_rust_without_frame_pointers() {
    let _machine = machine::alone();
    let room = TempDir::new().unwrap();
    let program = room.path().join("mixed");
    let mut compiler = Command::new(tools::rustc().unwrap());
    compiler
        .args(["--edition=2021", "-O", "-Cforce-frame-pointers=no", "-o"])
        .arg(&program)
        .arg(source("mixed.rs"));
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    assert_rate("rust", &Target::from_command(mortal(&program)));
}

/// A Go program, linked with these flags.
fn build_go(go: &Go, room: &TempDir, name: &str, flags: &str) -> PathBuf {
    let program = room.path().join(format!("program{}", flags.len()));
    let mut compiler = go.command();
    compiler
        .args(["build", "-ldflags", flags, "-o"])
        .arg(&program)
        .arg(source(name));
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
