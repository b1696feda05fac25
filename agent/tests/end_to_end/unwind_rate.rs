//! The share of random samples whose native stacks lead to the entry of their process or thread.

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

/// At most one in this many samples may lack native frames.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 100;

/// Samples that are enough to estimate it.
const ENOUGH: u64 = 1000;

/// The maximum number of captures.
const MAX_CAPTURES: usize = 20;

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
        let directory = TempDir::new().unwrap();
        for flags in GO_FLAGS {
            let program = build_go(&go, &directory, "mixed.go", flags);
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
        let directory = TempDir::new().unwrap();
        for flags in GO_FLAGS {
            let program = build_go(&go, &directory, "other_stacks.go", flags);
            let folded = assert_rate(
                &format!("go {} on other stacks {flags}", go.version()),
                &Target::from_command(mortal(&program)),
            );
            assert_goroutines(&go, flags, &folded);
        }
    }
}

/// The functions of the goroutines, by the names that remain in the binary. Newer compilers inline
/// `sortInC`, which is short, into the wrapper of its `go` statement, and only debugging
/// information has the names of inlined functions.
fn outer_functions(go: &Go, flags: &str) -> [&'static str; 2] {
    let sort = if go.minor() >= WITH_INLINED_GOROUTINES && flags.contains("-w") {
        "main.main.gowrap1"
    } else {
        "main.sortInC"
    };
    [sort, "main.readTheClock"]
}

/// Asserts that nearly all samples on a stack of the scheduler lead to the goroutine's function.
fn assert_goroutines(go: &Go, flags: &str, folded: &Folded) {
    let [sort, clock] = outer_functions(go, flags);
    for [outer, inner] in [[sort, "runtime.asmcgocall"], [clock, "time.now"]] {
        let has = |stack: &[Frame], name| stack.iter().any(|frame| frame.name.contains(name));
        let all = folded.count(|stack| has(stack, inner));
        let complete = folded.count(|stack| has(stack, inner) && has(stack, outer));
        println!("{inner}: {complete} of {all} lead to {outer}");
        assert!(all >= ENOUGH / 20, "{inner}: {all}");
        let missing = all - complete;
        assert!(
            missing * SAMPLES_FOR_ONE_INCOMPLETE <= all,
            "{inner}: {missing} of {all}: {}",
            folded.show(|stack| has(stack, inner) && !has(stack, outer))
        );
    }
}

#[test]
fn of_rust_without_frame_pointers() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("mixed");
    let mut compiler = Command::new(tools::rustc().unwrap());
    compiler
        .args(["--edition=2021", "-O", "-Cforce-frame-pointers=no", "-o"])
        .arg(&program)
        .arg(source("mixed.rs"));
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    assert_rate("rust", &Target::from_command(mortal(&program)));
}

/// A Go program, linked with these flags.
fn build_go(go: &Go, directory: &TempDir, name: &str, flags: &str) -> PathBuf {
    let program = directory.path().join(format!("program{}", flags.len()));
    let mut compiler = go.command();
    compiler
        .args(["build", "-ldflags", flags, "-o"])
        .arg(&program)
        .arg(source(name));
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    program
}

/// Asserts that of [`SAMPLES_FOR_ONE_INCOMPLETE`] stacks at most one is incomplete; returns all
/// stacks.
fn assert_rate(name: &str, target: &Target) -> Folded {
    let is_incomplete =
        |stack: &[Frame]| stack.iter().any(|frame| frame.name.starts_with(NO_NATIVE));
    let mut folded = Folded::default();
    for _ in 0..MAX_CAPTURES {
        folded.add(Capture::whole(target.pid(), "-d 1.5 -r 997"));
        if folded.total() >= ENOUGH {
            break;
        }
    }
    let incomplete = folded.count(is_incomplete);
    println!("{name}: {incomplete} of {} stacks are cut", folded.total());
    assert!(
        folded.total() >= ENOUGH,
        "{name}: {} samples",
        folded.total()
    );
    assert!(
        incomplete * SAMPLES_FOR_ONE_INCOMPLETE <= folded.total(),
        "{name}: {incomplete} of {}: {}",
        folded.total(),
        folded.show(is_incomplete)
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
