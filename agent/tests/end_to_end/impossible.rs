//! Stacks that are impossible in a program, in workloads for which a profiler is most likely to
//! record some.
use super::{
    capture::Capture,
    folded::{Folded, Frame, is_marked},
    machine,
    source::Source,
    target::Target,
};

/// Addresses of code objects are reused all the time: a cache entry of one must not be used for
/// the next one at its address.
#[test]
fn a_code_object_is_not_mistaken_for_another_one_at_its_address() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "churn");
        let folded = capture_samples(&target, "-d 2.7 -r 1999", 5_000);
        let short_lived =
            folded.count(|stack| stack.iter().any(|frame| frame.name.starts_with("churn_")));
        // The rest of the time goes into compiling the functions.
        assert!(short_lived > folded.total() / 10, "only {short_lived}");
        assert_all_legal(&folded, &interpreter.name, |stack| {
            stack[0].name == "<module>" && stack.windows(2).all(is_legal_in_churn)
        });
    });
}

/// Whether a pair of caller and callee is possible in the workload `churn`.
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
        let calls = source.calls(interpreter);
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

/// Captures this number of samples at least.
fn capture_samples(target: &Target, options: &str, least: u64) -> Folded {
    let is_enough = |folded: &Folded| folded.total() >= least;
    let folded = Capture::folded_until(target.pid(), options, is_enough);
    assert!(is_enough(&folded), "only {} samples", folded.total());
    folded
}

/// Asserts that no stack is impossible. Stacks that the agent marks as incomplete do not count as
/// impossible, but must be rare: they are samples in the few instructions in which the interpreter
/// links a frame. A program whose loop has a fixed ratio to the sampling period may be sampled
/// there more often than at random times.
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
