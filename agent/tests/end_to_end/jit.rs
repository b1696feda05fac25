//! Code of JIT compilers: that of the interpreter, of numba and of Node.js.

use std::{collections::BTreeSet, fs};

use tempfile::TempDir;
use xtask::{interpreters, process::capture, tools};

use super::{
    capture::Capture,
    folded::{Folded, Frame, is_marked, names},
    machine,
    packages::python_packages,
    program::Program,
    source::Source,
    target::{Target, mortal, workload_path},
};

/// Builds with a JIT, which is off by default.
const WITH_JIT: [&str; 2] = ["3.14-sid", "3.15-sid"];

/// The variable that enables it.
const ENVIRONMENT: [(&str, &str); 1] = [("PYTHON_JIT", "1")];

/// At most one in this many samples may be incomplete.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 50;

/// Compiled code does not always update the instruction pointer of its frame, so lines may be those
/// of earlier instructions.
#[test]
fn stacks_of_compiled_functions_are_complete() {
    let _machine = machine::shared();
    let source = Source::of("call_tree");
    machine::for_each_named(&WITH_JIT, |interpreter| {
        let script = "import sys; print(sys._jit.is_enabled())";
        let mut python = mortal(&interpreter.path);
        python.envs(ENVIRONMENT).args(["-s", "-c", script]);
        assert_eq!(capture(&mut python).unwrap(), "True");

        let stacks = source.stacks(interpreter);
        let expected: BTreeSet<_> = stacks.iter().map(|stack| names(stack)).collect();
        let target = Target::start_in(interpreter, "call_tree", &[], &ENVIRONMENT);
        let missing = |folded: &Folded| {
            let found: BTreeSet<_> = folded.0.keys().map(|stack| names(stack)).collect();
            expected
                .iter()
                .filter(|stack| !found.contains(*stack))
                .map(|stack| stack.join(";"))
                .collect::<Vec<_>>()
        };
        let has_all = |folded: &Folded| missing(folded).is_empty();
        let folded = Capture::folded_until(target.pid(), "-d 3 -r 499", has_all);
        assert_eq!(missing(&folded), [""; 0]);

        let is_impossible = |stack: &[Frame]| {
            let names = names(stack);
            !is_marked(stack) && !expected.iter().any(|complete| complete.starts_with(&names))
        };
        assert_eq!(folded.show(is_impossible), "", "stacks that cannot be");
        let marked = folded.count(is_marked);
        println!(
            "{}: {marked} incomplete of {} samples",
            interpreter.name,
            folded.total()
        );
        assert!(
            marked * SAMPLES_FOR_ONE_INCOMPLETE <= folded.total(),
            "{}",
            folded.show(is_marked)
        );
    });
}

/// The frame of compiled code without a name.
const UNNAMED: &str = "[jit]_[j]";

/// Requirement specifiers of numba and what it requires.
const NUMBA: [&str; 3] = ["numba==0.68.1", "llvmlite==0.50.0", "numpy==2.5.5"];

/// LLVM registers it for debuggers.
#[test]
fn code_of_numba_has_the_names_of_its_functions() {
    let _machine = machine::shared();
    let interpreter = interpreters::named("3.12").unwrap();
    let packages = python_packages(&interpreter, "numba", &NUMBA);
    let environment = [("PYTHONPATH", packages.to_str().unwrap())];
    let target = Target::start_in(&interpreter, "numba_loop", &[], &environment);
    let folded = Capture::whole(target.pid(), "-d 2 -r 499");
    assert_one_frame(&folded);
    let is_named = |stack: &[Frame]| {
        let leaf = stack.last();
        // LLVM may inline one into the other.
        leaf.is_some_and(|frame| {
            ["::inner (", "::outer ("]
                .iter()
                .any(|it| frame.name.contains(it))
        })
    };
    let (named, all) = (folded.count(is_named), folded.total());
    assert!(all > 0 && named * 10 > all * 9, "{}", folded.show(|_| true));
}

/// What LLVM registers ends with the memory of its process, and so does the way to the file of a perf map.
#[test]
fn code_of_programs_that_have_ended_has_the_names_of_its_functions() {
    let _machine = machine::shared();
    let interpreter = interpreters::named("3.12").unwrap();
    let python = interpreter.path.to_str().unwrap();
    let packages = python_packages(&interpreter, "numba", &NUMBA);
    let packages = format!("PYTHONPATH={}", packages.display());
    let numba = workload_path("numba_loop");
    let numba = ["env", &packages, python, numba.to_str().unwrap(), "1"];
    let directory = TempDir::new().unwrap();
    let node = tools::node().unwrap();
    let log = format!("--logfile={}/v8.log", directory.path().display());
    let node = [
        node.to_str().unwrap(),
        "--perf-basic-prof",
        &log,
        "-e",
        FIB_JS,
    ];
    let script = ["-X", "perf", "-c", SPIN_PY];
    let perf_support = [&[python], &script[..]].concat();
    for (line, name) in [
        (&numba[..], "__main__::"),
        (&node[..], "fib"),
        (&perf_support[..], "py::spin"),
    ] {
        let pid = directory.path().join("pid");
        let shell = [
            "sh",
            "-c",
            "echo $$ > $0; exec \"$@\"",
            pid.to_str().unwrap(),
        ];
        let line = [&shell[..], line].concat();
        let program = Program(line.into_iter().map(str::to_owned).collect());
        let (status, folded) = program.profile_all_frames(&["--internals"]);
        assert!(status.success(), "{status}");
        let pid = fs::read_to_string(pid).unwrap();
        // Numba writes none.
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", pid.trim()));
        let count =
            |what: &dyn Fn(&str) -> bool| folded.count(|stack| names(stack).into_iter().any(what));
        let (named, unnamed) = (
            count(&|frame| frame.contains(name)),
            count(&|frame| frame.starts_with("[jit]")),
        );
        assert!(
            named > 100 && unnamed * 10 < named,
            "{name}: {named} with and {unnamed} without: {}",
            folded.show(|_| true)
        );
    }
}

/// Runs for a second.
const FIB_JS: &str = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }; \
    const end = Date.now() + 1000; while (Date.now() < end) fib(20)";

/// The same.
const SPIN_PY: &str = "import time
def spin(end):
    while time.monotonic() < end: sum(range(100))
spin(time.monotonic() + 1)";

#[test]
fn code_of_node_is_one_frame_without_a_map_and_named_with_one() {
    let _machine = machine::shared();
    // Node.js writes a log beside.
    let directory = TempDir::new().unwrap();
    let start = |options: &[&str]| {
        let mut node = mortal(tools::node().unwrap());
        node.current_dir(&directory);
        node.args(options)
            .arg(workload_path("mixed").with_extension("js"));
        Target::from_command(node)
    };
    let without = start(&[]);
    let folded = Capture::whole(without.pid(), "-d 2 -r 499");
    assert_ne!(assert_one_frame(&folded), 0);

    let with = start(&["--perf-basic-prof"]);
    let folded = Capture::whole(with.pid(), "-d 2 -r 499");
    fs::remove_file(format!("/tmp/perf-{}.map", with.pid())).unwrap();
    assert_one_frame(&folded);
    let is_named = |stack: &[Frame]| {
        let mut names = names(stack).into_iter();
        names.any(|name| name.contains("fib"))
    };
    assert_ne!(folded.count(is_named), 0, "{}", folded.show(|_| true));
}

/// Asserts that compiled code without a name is one frame of a stack; returns the samples that have
/// it.
fn assert_one_frame(folded: &Folded) -> u64 {
    let has_address = |stack: &[Frame]| names(stack).iter().any(|name| name.starts_with("[jit]+"));
    assert_eq!(folded.show(has_address), "");
    let is_repeated = |stack: &[Frame]| names(stack).windows(2).any(|two| two == [UNNAMED; 2]);
    assert_eq!(folded.show(is_repeated), "");
    folded.count(|stack| names(stack).contains(&UNNAMED))
}
