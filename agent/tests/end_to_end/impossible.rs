//! Stacks that a program never has, looked for where a profiler is most likely to see some.

use std::collections::BTreeSet;

use super::{
    capture::Capture,
    folded::{Folded, Frame, is_marked},
    machine,
    source::{Source, function_name},
    target::Target,
};

/// Addresses of code objects are used again all the time: what is cached of one must not be
/// taken for what stands there now.
#[test]
fn a_code_object_is_not_taken_for_another_one_at_its_address() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "churn");
        let folded = capture_samples(&target, "-d 4 -r 1999", 5_000);
        let short_lived =
            folded.count(|stack| stack.iter().any(|frame| frame.name.starts_with("churn_")));
        // The functions are at work for some of the time; for the rest they are compiled.
        assert!(short_lived > folded.total() / 10, "only {short_lived}");
        assert_all_legal(&folded, &interpreter.name, |stack| {
            stack[0].name == "<module>" && stack.windows(2).all(is_legal_in_churn)
        });
    });
}

/// Whether the workload `churn` has a frame above another one that is like these.
fn is_legal_in_churn(pair: &[Frame]) -> bool {
    let (outer, inner) = (&*pair[0].name, &*pair[1].name);
    match inner.split_once('_') {
        Some(("churn", number)) => outer.strip_prefix("call_") == Some(number),
        Some(("call", _)) => outer == "turn",
        _ => {
            [("<module>", "main"), ("main", "turn"), ("turn", "<module>")].contains(&(outer, inner))
        }
    }
}

/// The stack changes between any two of the interpreter's own instructions.
#[test]
fn no_stack_is_torn_while_it_changes() {
    let _machine = machine::alone();
    let source = Source::of("short_calls");
    machine::for_each_representative(|interpreter| {
        let calls: BTreeSet<(&str, u32, &str)> = source
            .said("call")
            .map(|call| {
                let (site, function) = call.split_once(' ').unwrap();
                let (caller, mark) = site.split_once('@').unwrap();
                let name = |qualified| function_name(qualified, interpreter);
                let (_, line) = source.line(mark);
                (name(caller), line, name(function))
            })
            .collect();
        let target = Target::start(interpreter, "short_calls");
        let folded = capture_samples(&target, "-d 5 -r 4999", 20_000);
        assert_all_legal(&folded, &interpreter.name, |stack| {
            stack[0].name == "<module>"
                && stack.iter().all(|frame| source.has(&frame.place))
                && stack.windows(2).all(|pair| {
                    let line = pair[0].line.unwrap_or(0);
                    calls.contains(&(&pair[0].name, line, &pair[1].name))
                })
        });
    });
}

/// So many samples at least.
fn capture_samples(target: &Target, options: &str, least: u64) -> Folded {
    let is_enough = |folded: &Folded| folded.total() >= least;
    let folded = Capture::folded_until(target.pid(), options, is_enough);
    assert!(is_enough(&folded), "only {} samples", folded.total());
    folded
}

/// No stack is one that the program never has. What the agent itself tells to be incomplete is
/// none, but must be rare: it is a sample in the few instructions in which the interpreter links
/// a frame, which the clock may meet more often than chance would when the program takes turns as
/// regular as its ticks.
fn assert_all_legal(folded: &Folded, name: &str, is_legal: impl Fn(&[Frame]) -> bool) {
    let is_impossible = |stack: &[Frame]| !is_marked(stack) && !is_legal(stack);
    let (impossible, marked) = (folded.count(is_impossible), folded.count(is_marked));
    let total = folded.total();
    println!("{name}: {impossible} impossible and {marked} incomplete of {total} samples");
    assert_eq!(
        folded.show(is_impossible),
        "",
        "{impossible} of {total} samples are impossible"
    );
    assert!(
        marked * 20 < total,
        "{marked} of {total} samples are incomplete: {}",
        folded.show(is_marked)
    );
}
