//! The walk of native frames over made stacks, whole and hostile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use agent_common::{
    layout::RunStyle,
    limits::{MAX_NATIVE_FRAMES, MAX_NATIVE_VISITED},
    maps::TableState,
    memory::{Fault, UserAddr, UserMemory},
    native::{
        Arch, CodeLocation, CodeLookup, NativeOutcome, NativeWalk, PROGRAM_COUNTER, PythonFrames,
        UnwindNative,
    },
    python::PythonRuns,
    record::{NativeFrame, NativeKind, NativeUnwindStatus},
    scratch::Scratch,
    unwind::{CfaRule, Rule, RuleFlags, Saved},
};
use proptest::prelude::*;

const ARCH: Arch = Arch::CURRENT;

/// Where the made stack starts.
const STACK: u64 = 0x7fff_0000_0000;

/// Code of which every function has a frame of 32 bytes, the return address on top.
const FILE: u64 = 0x40_0000;

/// Code that keeps frame pointers and has no rules.
const COMPILED_AT_RUN_TIME: u64 = 0x50_0000;

/// The entry.
const ENTRY: u64 = 0x60_0000;

/// An evaluation loop, with frames like those of the file.
const LOOP: u64 = 0x70_0000;

/// What signal handlers return to.
const HANDLER_RETURN: u64 = 0x80_0000;

/// Code that goes to another stack, its frame pointer still on its own.
const SWITCH: u64 = 0x90_0000;

const FRAME_BYTES: u64 = 32;

/// A stack of some words, and zeros up to the end of its last page; reading past that fails.
struct Stack(Vec<u64>);

/// Words of a page.
const PAGE_WORDS: usize = 512;

impl UserMemory for Stack {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let start = address.0.checked_sub(STACK).ok_or(Fault)?;
        let start = usize::try_from(start).map_err(|_| Fault)?;
        let end = start.checked_add(bytes as usize).ok_or(Fault)?;
        let all: Vec<u8> = self.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let wanted = all.get(start..end).ok_or(Fault)?;
        // SAFETY: the caller vouches for room for so many bytes.
        unsafe { into.copy_from_nonoverlapping(wanted.as_ptr(), wanted.len()) };
        Ok(())
    }
}

/// Places by the first address that they are known for.
struct Known {
    rules: BTreeMap<u64, (NativeKind, Rule)>,
    found: CodeLocation,
}

impl Known {
    fn new() -> Self {
        let framed = Rule {
            cfa: CfaRule::REGISTER,
            register: ARCH.stack_pointer,
            offset: i32::try_from(FRAME_BYTES).unwrap(),
            return_address: Saved::at(-1),
            ..Rule::UNKNOWN
        };
        let evaluates = Rule {
            flags: RuleFlags::EVALUATES,
            ..framed
        };
        let switches = Rule {
            register: ARCH.frame_pointer,
            flags: RuleFlags::SWITCHES,
            frame_pointer: Saved::at(-2),
            offset: 16,
            ..framed
        };
        let of = |cfa| Rule {
            cfa,
            ..Rule::UNKNOWN
        };
        let file = NativeKind::FILE;
        Self {
            rules: BTreeMap::from([
                (0, (NativeKind(0), Rule::UNKNOWN)),
                (FILE, (file, framed)),
                (COMPILED_AT_RUN_TIME, (NativeKind::ANONYMOUS, Rule::UNKNOWN)),
                (ENTRY, (file, of(CfaRule::END))),
                (LOOP, (file, evaluates)),
                (HANDLER_RETURN, (file, of(CfaRule::SIGNAL))),
                (SWITCH, (file, switches)),
                (0xa0_0000, (NativeKind(0), Rule::UNKNOWN)),
            ]),
            found: CodeLocation::NOWHERE,
        }
    }
}

impl CodeLookup for Known {
    fn find(&mut self, address: u64, _stack_pointer: u64) -> Option<&CodeLocation> {
        let (_, (kind, rule)) = self.rules.range(..=address).next_back()?;
        self.found = CodeLocation {
            address,
            rule: *rule,
            file_or_pid: 1,
            kind: *kind,
            table: TableState::NONE,
            reserved: 0,
        };
        Some(&self.found)
    }
}

/// What a walk came to.
struct Walked {
    end: NativeUnwindStatus,
    frames: Vec<NativeFrame>,
    steps: u32,
}

struct Start {
    pc: u64,
    stack_pointer: u64,
    frame_pointer: u64,
}

/// The steps of a walk, one frame at a time.
struct Steps<'a, C> {
    walk: &'a mut NativeWalk,
    stack: &'a Stack,
    scratch: &'a mut Scratch,
    start: &'a Start,
    python: PythonFrames<'a>,
    code: &'a mut C,
    taken: u32,
}

impl<C: CodeLookup> UnwindNative for Steps<'_, C> {
    const FRAMES_PER_STEP: u32 = 1;

    fn begin(&mut self) -> NativeOutcome {
        self.walk.clear(1);
        self.walk.begin(self.start.pc);
        let pointers = [
            (ARCH.stack_pointer, self.start.stack_pointer),
            (ARCH.frame_pointer, self.start.frame_pointer),
        ];
        for (register, value) in pointers {
            self.walk.set_register(register, value);
        }
        NativeOutcome::NEXT
    }

    fn walk_frames(&mut self) -> NativeOutcome {
        self.taken += 1;
        let (python, frames) = (self.python, Self::FRAMES_PER_STEP);
        let step = self
            .walk
            .walk_frames(self.stack, self.scratch, python, self.code, frames);
        step.into()
    }
}

fn walk(
    stack: Vec<u64>,
    start: &Start,
    python: PythonFrames<'_>,
    code: &mut impl CodeLookup,
) -> Walked {
    let mut stack = Stack(stack);
    let whole = stack.0.len().next_multiple_of(PAGE_WORDS);
    stack.0.resize(whole, 0);
    let mut scratch = Box::new(Scratch::new());
    let mut walk = Box::new(NativeWalk::new());
    let mut steps = Steps {
        walk: &mut walk,
        stack: &stack,
        scratch: &mut scratch,
        start,
        python,
        code,
        taken: 0,
    };
    let end = steps.unwind();
    let steps = steps.taken;
    walk.stack.push_pending_run();
    walk.stack.finish_record();
    let count = walk.stack.head.frame_count as usize;
    Walked {
        end,
        frames: walk.stack.frames[..count].to_vec(),
        steps,
    }
}

/// Frames of 32 bytes with these return addresses, the newest function first.
fn frames(return_addresses: &[u64]) -> Vec<u64> {
    return_addresses
        .iter()
        .flat_map(|address| [0, 0, 0, *address])
        .collect()
}

const fn at(pc: u64) -> Start {
    Start {
        pc,
        stack_pointer: STACK,
        frame_pointer: 0,
    }
}

fn without_python(runs: &PythonRuns) -> PythonFrames<'_> {
    PythonFrames {
        runs,
        depth: 0,
        style: RunStyle::EACH,
    }
}

fn addresses(walked: &Walked) -> Vec<u64> {
    walked.frames.iter().map(|frame| frame.address).collect()
}

#[test]
fn frames_are_left_by_their_rules() {
    let stack = frames(&[FILE + 0x20, FILE + 0x30, ENTRY + 9]);
    let walked = walk(
        stack,
        &at(FILE + 0x10),
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
    let walked = walk(
        stack,
        &start,
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
    let walked = walk(
        stack,
        &at(FILE + 0x10),
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
    assert_eq!(walked.end, NativeUnwindStatus::COMPLETE);
    // The interrupted instruction is the one that is meant, not the one before.
    let expected = [FILE + 0x10, HANDLER_RETURN, FILE + 0x50, ENTRY + 8];
    assert_eq!(addresses(&walked), expected);
}

#[test]
fn of_a_deep_stack_the_leaf_is_kept() {
    let stack = frames(&[FILE + 0x20; 2 * MAX_NATIVE_FRAMES]);
    let walked = walk(
        stack,
        &at(FILE + 0x10),
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
    let walked = walk(
        vec![0],
        &start,
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
    let walked = walk(
        stack,
        &start,
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
        let runs = PythonRuns::new();
        let walked = walk(stack, &start, without_python(&runs), &mut Known::new());
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
    let walked = walk(
        frames(&[3]),
        &at(FILE + 0x10),
        without_python(&PythonRuns::new()),
        &mut Known::new(),
    );
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
