//! The walk of native frames over made stacks, whole and hostile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made;

use agent_common::{
    layout::RunStyle,
    limits::{MAX_NATIVE_FRAMES, MAX_NATIVE_VISITED},
    native::{PROGRAM_COUNTER, PythonFrames},
    python::PythonRuns,
    record::{NativeKind, NativeUnwindStatus},
    unwind::{CfaRule, Rule, RuleFlags, Saved},
};
use proptest::prelude::*;

use made::{
    ARCH, COMPILED_AT_RUN_TIME, ENTRY, FILE, FRAME_BYTES, HANDLER_RETURN, Known, KnownSoFar, LOOP,
    PAGE_WORDS, STACK, SWITCH, Start, Walked, addresses, at, frames, merged, walk, walk_and_resume,
    walk_native,
};

#[test]
fn frames_are_left_by_their_rules() {
    let stack = frames(&[FILE + 0x20, FILE + 0x30, ENTRY + 9]);
    let walked = walk_native(stack, &at(FILE + 0x10));
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    // Of callers the address is in the call.
    let expected = [FILE + 0x10, FILE + 0x1f, FILE + 0x2f, ENTRY + 8];
    assert_eq!(addresses(&walked), expected);
}

#[test]
fn code_without_rules_is_left_by_its_frame_pointer() {
    // The saved frame pointer and the return address of each, then a frame of the file.
    let stack = vec![
        7,
        STACK + 32,
        COMPILED_AT_RUN_TIME + 0x20,
        7,
        0,
        FILE + 0x20,
        0,
        0,
        0,
        ENTRY + 9,
    ];
    let start = Start {
        frame_pointer: STACK + 8,
        ..at(COMPILED_AT_RUN_TIME + 0x10)
    };
    let walked = walk_native(stack, &start);
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    assert_eq!(walked.frames.len(), 4);
    assert_eq!(walked.frames[1].kind, NativeKind::ANONYMOUS);
}

#[test]
fn what_a_signal_has_interrupted_comes_after_its_handler() {
    let registers = usize::try_from(ARCH.signal_registers / 8).unwrap();
    // Rules of such code begin a byte before it.
    let mut stack = frames(&[HANDLER_RETURN + 1]);
    let saved = stack.len() + registers;
    stack.resize(saved + ARCH.saved.len(), 0);
    let interrupted = STACK + stack.len() as u64 * 8;
    for (nth, number) in ARCH.saved.iter().enumerate() {
        if *number == PROGRAM_COUNTER {
            stack[saved + nth] = FILE + 0x50;
        } else if *number == ARCH.stack_pointer {
            stack[saved + nth] = interrupted;
        }
    }
    stack.extend(frames(&[ENTRY + 9]));
    let walked = walk_native(stack, &at(FILE + 0x10));
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    // The interrupted instruction is the one that is meant, not the one before.
    let expected = [FILE + 0x10, HANDLER_RETURN, FILE + 0x50, ENTRY + 8];
    assert_eq!(addresses(&walked), expected);
}

#[test]
fn of_a_deep_stack_the_leaf_is_kept() {
    let stack = frames(&[FILE + 0x20; 2 * MAX_NATIVE_FRAMES]);
    let walked = walk_native(stack, &at(FILE + 0x10));
    assert_eq!(walked.end, NativeUnwindStatus::TOO_DEEP);
    assert_eq!(walked.frames.len(), MAX_NATIVE_FRAMES);
    assert_eq!(walked.frames[0].address, FILE + 0x10);
}

#[test]
fn a_stack_that_ends_too_early_says_so() {
    let start = Start {
        stack_pointer: STACK + 8 * PAGE_WORDS as u64 - FRAME_BYTES / 2,
        ..at(FILE + 0x10)
    };
    let walked = walk_native(vec![0], &start);
    assert_eq!(walked.end, NativeUnwindStatus::FAULT);
    assert_eq!(addresses(&walked), [FILE + 0x10]);
}

#[test]
fn a_frame_pointer_that_leads_back_is_not_followed_for_ever() {
    let stack = vec![STACK, COMPILED_AT_RUN_TIME + 0x20, 0, 0];
    let start = Start {
        frame_pointer: STACK,
        ..at(COMPILED_AT_RUN_TIME + 0x10)
    };
    let walked = walk_native(stack, &start);
    assert_eq!(walked.end, NativeUnwindStatus::NO_RULE);
    assert_eq!(walked.frames.len(), 2);
}

#[test]
fn a_walk_follows_code_to_another_stack_in_either_direction() {
    // The caller's stack, with room below it, then the one that was gone to.
    let callers = [vec![0; 16], vec![0, FILE + 0x40], frames(&[ENTRY + 9])].concat();
    let gone_to = frames(&[FILE + 0x20, SWITCH + 0x30]);
    let words = |stack: &[u64]| 8 * u64::try_from(stack.len()).unwrap();
    for is_above in [true, false] {
        let (stack, callers_start, stack_pointer) = if is_above {
            let stack = [&*callers, &*gone_to].concat();
            (stack, STACK, STACK + words(&callers))
        } else {
            let stack = [&*gone_to, &*callers].concat();
            (stack, STACK + words(&gone_to), STACK)
        };
        let start = Start {
            stack_pointer,
            frame_pointer: callers_start + 16 * 8,
            ..at(FILE + 0x10)
        };
        let walked = walk_native(stack, &start);
        assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
        let expected = [
            FILE + 0x10,
            FILE + 0x1f,
            SWITCH + 0x2f,
            FILE + 0x3f,
            ENTRY + 8,
        ];
        assert_eq!(addresses(&walked), expected);
    }
}

#[test]
fn an_address_in_no_mapping_ends_the_walk() {
    let walked = walk_native(frames(&[3]), &at(FILE + 0x10));
    assert_eq!(walked.end, NativeUnwindStatus::UNMAPPED);
    assert_eq!(addresses(&walked), [FILE + 0x10]);
}

/// The kinds of the frames, with how many Python frames a run has.
fn shape(walked: &Walked) -> Vec<u32> {
    walked
        .frames
        .iter()
        .map(|frame| match frame.kind {
            NativeKind::PYTHON => frame.id_or_count,
            _ => 0,
        })
        .collect()
}

#[test]
fn runs_take_the_place_of_the_frames_that_they_lie_in() {
    let stack = frames(&[
        FILE + 0x20,
        FILE + 0x30,
        FILE + 0x40,
        FILE + 0x50,
        ENTRY + 9,
    ]);
    let mut runs = PythonRuns::new();
    // In the second frame, nowhere, and in the fourth.
    runs.end(STACK + FRAME_BYTES + 8, 3);
    runs.end(8, 4);
    runs.end(STACK + 3 * FRAME_BYTES, 6);
    let python = PythonFrames {
        runs: &runs,
        depth: 6,
        style: RunStyle::ENTRY_FRAMES,
    };
    let walked = walk(stack, &at(FILE + 0x10), python, &mut Known::new());
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    // The run that lies nowhere stands with the next one.
    assert_eq!(shape(&walked), [0, 3, 0, 3, 0, 0]);
}

#[test]
fn each_loop_runs_one_frame_where_they_are_told_by_their_code() {
    let stack = frames(&[LOOP + 9, LOOP + 9, FILE + 0x20, LOOP + 9, ENTRY + 9]);
    let python = PythonFrames {
        runs: &PythonRuns::new(),
        depth: 2,
        style: RunStyle::EACH,
    };
    let walked = walk(stack, &at(FILE + 0x10), python, &mut Known::new());
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    // There is no third Python frame: the loop has not made it known yet.
    assert_eq!(shape(&walked), [0, 2, 0, 0, 0]);
}

/// Any rule, also those that no compiler makes.
fn rule() -> impl Strategy<Value = Rule> {
    let saved = || any::<i16>().prop_map(Saved);
    (
        0_u8..9,
        any::<u8>(),
        0_u16..8,
        any::<i32>(),
        any::<i16>(),
        (saved(), saved(), saved()),
    )
        .prop_map(
            |(cfa, register, flags, offset, addend, (frame_pointer, base, return_address))| Rule {
                cfa: CfaRule(cfa),
                register,
                flags: RuleFlags(flags),
                offset,
                addend,
                frame_pointer,
                base,
                return_address,
            },
        )
}

proptest! {
    #[test]
    fn no_stack_and_no_rule_hold_a_walk_up(
        words in prop::collection::vec(
            prop_oneof![
                any::<u64>(),
                (0..0x60_0000_u64).prop_map(|distance| FILE + distance),
                (0..4096_u64).prop_map(|distance| STACK + distance),
            ],
            1..600,
        ),
        rules in prop::collection::vec(rule(), 8),
        runs in prop::collection::vec((0..4096_u64, 0..9_u32), 0..40),
        style in 0_u16..4,
    ) {
        let mut known = Known::new();
        for ((_, rule), any) in known.rules.values_mut().zip(rules) {
            *rule = any;
        }
        let mut all = PythonRuns::new();
        let mut depth = 0;
        for (distance, frames) in runs {
            depth += frames;
            all.end(STACK + distance, depth);
        }
        let python = PythonFrames {
            runs: &all,
            depth,
            style: RunStyle(style),
        };
        let start = Start {
            frame_pointer: STACK + 64,
            ..at(FILE + 0x10)
        };
        let walked = walk(words, &start, python, &mut known);
        prop_assert!(walked.steps <= MAX_NATIVE_VISITED);
        let native = walked.frames.iter().filter(|frame| frame.kind != NativeKind::PYTHON);
        prop_assert!(native.count() <= MAX_NATIVE_FRAMES);
        let claimed: u32 = shape(&walked).iter().sum();
        prop_assert!(claimed <= depth);
    }
}

proptest! {
    #[test]
    fn a_walk_that_is_continued_finds_what_one_walk_does(
        functions in prop::collection::vec((any::<bool>(), 1..3_u32), 0..200),
        lookups in 0..200_u32,
        is_unmapped: bool,
        style in prop_oneof![Just(RunStyle::EACH), Just(RunStyle::ENTRY_FRAMES)],
    ) {
        let mut callers: Vec<_> = functions
            .iter()
            .zip(0_u64..)
            .map(|((is_loop, _), nth)| if *is_loop { LOOP } else { FILE } + 8 * (nth + 1))
            .collect();
        callers.push(ENTRY + 9);
        let mut runs = PythonRuns::new();
        let mut depth = 0;
        for ((is_loop, frames), nth) in functions.iter().zip(1_u64..) {
            if *is_loop {
                depth += if style == RunStyle::EACH { 1 } else { *frames };
                runs.end(STACK + nth * FRAME_BYTES + 8, depth);
            }
        }
        let python = PythonFrames {
            runs: &runs,
            depth,
            style,
        };
        let stack = frames(&callers);
        let whole = walk(stack.clone(), &at(FILE + 0x10), python, &mut Known::new());
        let mut code = Known::new();
        let so_far = KnownSoFar {
            code: &mut code,
            lookups,
            is_unmapped,
        };
        let continued = walk_and_resume(&stack, &at(FILE + 0x10), python, so_far);
        prop_assert_eq!(merged(&continued.frames), merged(&whole.frames));
        prop_assert_eq!(continued.end, whole.end);
    }
}
