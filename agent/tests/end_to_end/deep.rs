//! Stacks at the maximum depth, and deeper ones.

use agent_common::limits::{LEAF_FRAMES, MAX_FRAMES, ROOT_FRAMES};

use super::{
    capture::Capture,
    folded::{Folded, Frame, text},
    machine,
    target::Target,
};

/// Marker in place of omitted frames.
const MARKER: &str = "[frames left out]";

/// Depth of a stack far beyond the maximum, and beyond CPython's default recursion limit.
const FAR: usize = 5_000;

#[test]
fn a_stack_that_is_too_deep_is_truncated_in_the_middle() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let depths = [MAX_FRAMES - 1, MAX_FRAMES, MAX_FRAMES + 1, FAR];
        let arguments = depths.map(|depth| depth.to_string());
        let target = Target::start_with(interpreter, "deep", &arguments);
        let mut threads = target.threads();
        threads.sort_by_key(|thread| thread.stack.len());
        assert_eq!(threads.len(), depths.len());

        let pid = target.pid().to_string();
        let capture = Capture::run(&[
            "-p", &pid, "-d", "2", "-r", "499", "-f", "folded", "-o", "-",
        ]);
        let messages = capture.messages.clone();
        let folded = capture.into_folded();
        let mut too_deep = 0;
        for (thread, depth) in threads.iter().zip(depths) {
            assert_eq!(thread.stack.len(), depth);
            let expected = truncated(&thread.stack);
            let count = folded.0.get(&expected).copied().unwrap_or(0);
            assert_ne!(count, 0, "{depth} frames: {}", outline(&folded));
            if depth > MAX_FRAMES {
                too_deep += count;
            }
        }
        assert_eq!(folded.0.len(), depths.len(), "{}", outline(&folded));
        let sentence = format!("{too_deep} stacks were truncated");
        assert!(messages.contains(&sentence), "{sentence}: {messages}");
    });
}

#[test]
fn a_stack_that_is_not_too_deep_is_complete_in_every_sample() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let depth = MAX_FRAMES.to_string();
        let target = Target::start_with(interpreter, "deep", &[depth]);
        let pid = target.pid().to_string();
        let arguments = ["-p", &pid, "-d", "1", "-f", "folded", "-o", "-"];
        let folded = Capture::run(&arguments).into_folded();
        let complete = &target.threads()[0].stack;
        assert!(folded.0.keys().eq([complete]), "{}", outline(&folded));
    });
}

/// The stack, root first, truncated in the middle if it is too deep.
fn truncated(stack: &[Frame]) -> Vec<Frame> {
    if stack.len() <= MAX_FRAMES {
        return stack.to_vec();
    }
    let marker = Frame {
        name: MARKER.to_owned(),
        place: String::new(),
        line: None,
    };
    let root = &stack[..ROOT_FRAMES];
    let leaf = &stack[stack.len() - LEAF_FRAMES..];
    [root, &[marker], leaf].concat()
}

/// The first, marker and last frames of each stack.
fn outline(folded: &Folded) -> String {
    let outlines = folded.0.iter().map(|(stack, count)| {
        let middle: Vec<_> = stack
            .iter()
            .filter(|frame| frame.place.is_empty())
            .cloned()
            .collect();
        format!(
            "\n{count} samples of {} frames: {} … {} … {}",
            stack.len(),
            stack[0],
            text(&middle),
            stack[stack.len() - 1]
        )
    });
    outlines.collect()
}
