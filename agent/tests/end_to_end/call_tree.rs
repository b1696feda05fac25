//! Every kind of Python call; stacks have exactly the calls of the source.

use std::collections::BTreeSet;

use super::{
    abilities::has_renamed_code,
    capture::Capture,
    folded::{Folded, Frame, is_marked, text},
    machine,
    source::Source,
    target::Target,
};

/// One sample in this many may be between leaves, that is, of a call before or after its leaf runs.
/// That takes time too: `exec` and `eval` compile their argument.
const SAMPLES_BETWEEN_LEAVES: u64 = 20;

/// One sample in this many may be incomplete.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 50;

/// Names and files may be instances of classes that are derived from `str`.
#[test]
fn names_of_a_derived_class_are_read() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "derived_names");
        let folded = Capture::folded_until(target.pid(), "-d 1 -r 499", |it| it.total() > 100);
        let name = if has_renamed_code(interpreter) {
            "derived"
        } else {
            "made"
        };
        let is_named = |stack: &[Frame]| {
            stack
                .iter()
                .any(|frame| frame.name == name && frame.place.ends_with("derived.py"))
        };
        let (named, all) = (folded.count(is_named), folded.total());
        assert!(
            named * 20 > all * 19,
            "{}: {}",
            interpreter.name,
            folded.show(|_| true)
        );
    });
}

#[test]
fn stacks_are_exactly_those_of_the_source() {
    let _machine = machine::shared();
    let source = Source::of("call_tree");
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "call_tree");
        let expected: BTreeSet<Vec<Frame>> = source.stacks(interpreter).into_iter().collect();
        let has_all = |folded: &Folded| expected.iter().all(|stack| folded.0.contains_key(stack));
        let folded = Capture::folded_until(target.pid(), "-d 1.5 -r 499", has_all);

        let missing: Vec<_> = expected
            .iter()
            .filter(|stack| !folded.0.contains_key(*stack))
            .map(|stack| text(stack))
            .collect();
        assert!(missing.is_empty(), "missing stacks: {missing:#?}");

        let is_between = |stack: &[Frame]| {
            !expected.contains(stack) && expected.iter().any(|leaf| is_before_leaf(stack, leaf))
        };
        let is_wrong =
            |stack: &[Frame]| !expected.contains(stack) && !is_between(stack) && !is_marked(stack);
        assert_eq!(folded.show(is_wrong), "", "impossible stacks");
        let marked = folded.count(is_marked);
        assert!(
            marked <= 1 + folded.total() / SAMPLES_FOR_ONE_INCOMPLETE,
            "too many incomplete stacks: {}",
            folded.show(is_marked)
        );
        let between = folded.count(is_between);
        println!(
            "{}: {} stacks, {} samples, {between} between leaves",
            interpreter.name,
            expected.len(),
            folded.total()
        );
        assert!(
            between <= 1 + folded.total() / SAMPLES_BETWEEN_LEAVES,
            "too many samples between leaves: {}",
            folded.show(is_between)
        );
    });
}

/// Whether `stack` is a prefix of the stack `leaf`, except for the line of its last function.
fn is_before_leaf(stack: &[Frame], leaf: &[Frame]) -> bool {
    let Some((last, callers)) = stack.split_last() else {
        return false;
    };
    leaf.starts_with(callers)
        && leaf
            .get(callers.len())
            .is_some_and(|frame| frame.name == last.name && frame.place == last.place)
}
