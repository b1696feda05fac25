//! Threads that enter another interpreter of their process.

use super::{
    abilities::has_inner_interpreters,
    capture::Capture,
    folded::{Frame, names},
    machine,
    target::Target,
};

/// At most one in this many samples may be outside the function in the inner interpreter.
const SAMPLES_FOR_ONE_OTHER: u64 = 50;

#[test]
fn stacks_span_both_interpreters() {
    let _machine = machine::shared();
    machine::for_each_representative_that(has_inner_interpreters, |interpreter| {
        let target = Target::start(interpreter, "inner_interpreter");
        let outer = target.threads().remove(0).stack;
        let is_other = |stack: &[Frame]| {
            let inner = stack.strip_prefix(&*outer).unwrap_or_default();
            names(inner) != ["<module>", "inner"]
        };
        let folded = Capture::folded(target.pid(), "-d 1 -r 499");
        let (other, total) = (folded.count(is_other), folded.total());
        println!("{}: {other} others of {total} samples", interpreter.name);
        assert_ne!(total, 0);
        assert!(
            other * SAMPLES_FOR_ONE_OTHER <= total,
            "{}",
            folded.show(is_other)
        );
    });
}
