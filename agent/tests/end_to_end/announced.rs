//! Allocations that a program announces itself, by the USDT probe `otel_memory:alloc`.

use std::{fs, path::Path, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;
use xtask::{interpreters::Interpreter, packages, process::capture};

use super::{
    capture::{Capture, Running},
    folded::Folded,
    machine,
    native::compile,
    program::Program,
    target::Target,
};

/// Bytes that a function has announced.
struct Announced {
    function: String,
    weight: u64,
    times: u64,
}

impl Announced {
    /// From a line of the workload.
    fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let number = |nth: usize| words[nth].parse().unwrap();
        Self {
            function: words[0].to_owned(),
            weight: number(2),
            times: number(3),
        }
    }
}

/// Runs the workload with its library, which is among those that are loaded first, or is loaded by the program itself
/// while it runs.
fn run(
    interpreter: &Interpreter,
    library: &Path,
    preloaded: &[&Path],
    which: &str,
) -> (Vec<Announced>, Folded, Capture) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("allocated.folded");
    let library = library.to_str().unwrap();
    let mut program = Program::of(interpreter, "announcing", &[library, which]);
    if !preloaded.is_empty() {
        let names: Vec<_> = preloaded.iter().map(|it| it.to_str().unwrap()).collect();
        let start = ["/usr/bin/env", &format!("LD_PRELOAD={}", names.join(" "))];
        program.0.splice(..0, start.map(str::to_owned));
    }
    let mut command = vec!["--event", "alloc", "--output", file.to_str().unwrap(), "--"];
    command.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&command).finish();
    capture.assert_success();
    let output = String::from_utf8(capture.output.clone()).unwrap();
    let mut announced: Vec<_> = output.lines().map(Announced::read).collect();
    let looked_at = announced.pop().unwrap();
    assert_eq!(looked_at.function, "looked_at");
    assert_ne!(looked_at.times, 0, "{}", interpreter.name);
    let profile = Folded::parse_all(&fs::read_to_string(file).unwrap());
    (announced, profile, capture)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is announced in a test is below 2^53"
)]
fn number(bytes: u64) -> f64 {
    bytes as f64
}

fn found(profile: &Folded, function: &str) -> u64 {
    profile.count(|stack| stack.iter().any(|frame| frame.name == function))
}

/// What was found of what a function has allocated, of 1.
fn share(profile: &Folded, announced: &[Announced], function: &str) -> f64 {
    let of = announced.iter().find(|it| it.function == function).unwrap();
    let share = number(found(profile, function)) / number(of.weight * of.times);
    println!("{function}: {share}");
    share
}

/// Each with its weight, none of them twice, and what cannot be is left out; what others allocate is recorded beside
/// them.
#[test]
fn what_is_announced_is_what_was_allocated() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "announcing", "-O1 -shared -fPIC");
    machine::for_each_representative(|interpreter| {
        for preloaded in [&[&*library][..], &[]] {
            let (announced, profile, capture) = run(interpreter, &library, preloaded, "some");
            let [functions @ .., _] = &*announced else {
                panic!("{}", announced.len());
            };
            assert_eq!(functions.len(), 3);
            for of in functions {
                let (name, function) = (&interpreter.name, &of.function);
                let found = found(&profile, function);
                assert_eq!(found, of.weight * of.times, "{name}: {function}");
            }
            assert_eq!(found(&profile, "impossible"), 0);
            let left_out = "1 announcement of an allocation is left out";
            assert!(capture.messages.contains(left_out), "{}", capture.messages);
            let share = share(&profile, &announced, "large");
            assert!((share - 1.0).abs() < 0.15, "{}: {share}", interpreter.name);
        }
    });
}

/// A sampler before the functions of the C library announces what their probes record: one that a library has, and one
/// that is there instead of `malloc` for the whole process.
#[test]
fn what_is_announced_before_a_function_does_not_count_twice() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "announcing", "-O1 -shared -fPIC");
    let flags = "-O1 -shared -fPIC -fno-builtin -DALLOCATOR";
    let allocator = TempDir::new().unwrap();
    let allocator = compile(&allocator, "announcing", flags);
    machine::for_each_representative(|interpreter| {
        let wrapping = (&library, "wrapping", &["wrapping"][..]);
        for (library, which, functions) in [wrapping, (&allocator, "instead", &["large", "small"])]
        {
            let (announced, profile, _) = run(interpreter, library, &[library], which);
            for function in functions {
                let share = share(&profile, &announced, function);
                assert!((share - 1.0).abs() < 0.3, "{}: {share}", interpreter.name);
            }
        }
    });
}

/// An allocator with a sampler that is told of each allocation announces what its functions were asked for.
#[test]
fn what_is_announced_behind_a_function_does_not_count_twice() {
    let _machine = machine::alone();
    packages::install(&["libjemalloc2"]).unwrap();
    let files = capture(Command::new("dpkg").args(["-L", "libjemalloc2"])).unwrap();
    let is_library = |file: &&str| file.contains("/libjemalloc.so.");
    let jemalloc = Path::new(files.lines().find(is_library).unwrap());
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "announcing", "-O1 -shared -fPIC -DJEMALLOC");
    let preloaded = [jemalloc, &*library];
    let (announced, profile, _) = run(machine::one_interpreter(), &library, &preloaded, "hooks");
    let share = share(&profile, &announced, "large");
    assert!((share - 1.0).abs() < 0.15, "{share}");
}

/// Samples that are too many are thinned out.
#[test]
fn many_that_are_announced_are_estimated() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "announcing", "-O1 -shared -fPIC");
    let interpreter = machine::one_interpreter();
    let (announced, profile, _) = run(interpreter, &library, &[&library], "often");
    let share = share(&profile, &announced, "often");
    assert!((share - 1.0).abs() < 0.1, "{share}");
}

/// The kernel counts in the program's memory who looks at its probes, and takes that back when the agent is killed.
#[test]
fn nobody_looks_at_the_probes_of_a_program_after_the_agent() {
    let _machine = machine::shared();
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "announcing", "-O1 -shared -fPIC");
    let arguments = [library.to_str().unwrap(), "until"].map(str::to_owned);
    let mut target = Target::start_with(machine::one_interpreter(), "announcing", &arguments);
    let pid = target.pid().to_string();
    let mut looked_at = || Announced::read(&target.read_line()).times;
    let agent = Running::start(&["--pid", &pid, "--event", "alloc", "--duration", "60"]);
    assert_ne!(looked_at(), 0);
    agent.signal(Signal::KILL);
    assert_eq!(looked_at(), 0);
}
