//! Functions compiled by the interpreter's JIT.

use std::collections::BTreeSet;

use xtask::process::capture;

use super::{
    capture::Capture,
    folded::{Folded, Frame, is_marked, names},
    machine,
    source::Source,
    target::{Target, mortal},
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
    let _machine = machine::alone();
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
