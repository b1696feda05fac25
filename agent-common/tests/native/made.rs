//! Stacks and code that are made, and walks over them.

use std::collections::BTreeMap;

use agent_common::{
    layout::RunStyle,
    limits::MAX_NATIVE_VISITED,
    maps::TableState,
    memory::{Fault, UserAddr, UserMemory},
    native::{
        Arch, CodeLocation, CodeLookup, NativeOutcome, NativeStep, NativeWalk, PythonFrames,
        UnwindNative,
    },
    python::PythonRuns,
    record::{NativeFrame, NativeKind, NativeUnwindStatus},
    scratch::Scratch,
    unwind::{CfaRule, Rule, RuleFlags, Saved},
};

pub(super) const ARCH: Arch = Arch::CURRENT;

/// Where the made stack starts.
pub(super) const STACK: u64 = 0x7fff_0000_0000;

/// Code of which every function has a frame of 32 bytes, the return address on top.
pub(super) const FILE: u64 = 0x40_0000;

/// Code that keeps frame pointers and has no rules.
pub(super) const COMPILED_AT_RUN_TIME: u64 = 0x50_0000;

/// The entry.
pub(super) const ENTRY: u64 = 0x60_0000;

/// An evaluation loop, with frames like those of the file.
pub(super) const LOOP: u64 = 0x70_0000;

/// What signal handlers return to.
pub(super) const HANDLER_RETURN: u64 = 0x80_0000;

/// Code that goes to another stack, its frame pointer still on its own.
pub(super) const SWITCH: u64 = 0x90_0000;

pub(super) const FRAME_BYTES: u64 = 32;

/// A stack of some words, and zeros up to the end of its last page; reading past that fails.
struct Stack(Vec<u64>);

/// Words of a page.
pub(super) const PAGE_WORDS: usize = 512;

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
pub(super) struct Known {
    pub(super) rules: BTreeMap<u64, (NativeKind, Rule)>,
    found: CodeLocation,
}

impl Known {
    pub(super) fn new() -> Self {
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
pub(super) struct Walked {
    pub(super) end: NativeUnwindStatus,
    pub(super) frames: Vec<NativeFrame>,
    pub(super) steps: u32,
}

pub(super) struct Start {
    pub(super) pc: u64,
    pub(super) stack_pointer: u64,
    pub(super) frame_pointer: u64,
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

pub(super) fn walk(
    stack: Vec<u64>,
    start: &Start,
    python: PythonFrames<'_>,
    code: &mut impl CodeLookup,
) -> Walked {
    walk_with(&mut NativeWalk::new(), stack, start, python, code)
}

fn padded(mut stack: Vec<u64>) -> Stack {
    let whole = stack.len().next_multiple_of(PAGE_WORDS);
    stack.resize(whole, 0);
    Stack(stack)
}

fn walk_with(
    walk: &mut NativeWalk,
    stack: Vec<u64>,
    start: &Start,
    python: PythonFrames<'_>,
    code: &mut impl CodeLookup,
) -> Walked {
    let stack = padded(stack);
    let mut scratch = Box::new(Scratch::new());
    let mut steps = Steps {
        walk,
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

/// A walk of code that is [`Known`], without Python.
pub(super) fn walk_native(stack: Vec<u64>, start: &Start) -> Walked {
    let python = PythonFrames {
        runs: &PythonRuns::new(),
        depth: 0,
        style: RunStyle::EACH,
    };
    walk(stack, start, python, &mut Known::new())
}

/// Frames of 32 bytes with these return addresses, the newest function first.
pub(super) fn frames(return_addresses: &[u64]) -> Vec<u64> {
    return_addresses
        .iter()
        .flat_map(|address| [0, 0, 0, *address])
        .collect()
}

pub(super) const fn at(pc: u64) -> Start {
    Start {
        pc,
        stack_pointer: STACK,
        frame_pointer: 0,
    }
}

pub(super) fn addresses(walked: &Walked) -> Vec<u64> {
    walked.frames.iter().map(|frame| frame.address).collect()
}

/// Code that is not known yet after so many look-ups.
pub(super) struct KnownSoFar<'a> {
    pub(super) code: &'a mut Known,
    pub(super) lookups: u32,
    /// Whether it is in no mapping; else it lacks a table.
    pub(super) is_unmapped: bool,
}

impl CodeLookup for KnownSoFar<'_> {
    fn find(&mut self, address: u64, stack_pointer: u64) -> Option<&CodeLocation> {
        if self.lookups == 0 && self.is_unmapped {
            return None;
        }
        self.code.find(address, stack_pointer)?;
        if self.lookups == 0 {
            self.code.found.rule = Rule::UNKNOWN;
            self.code.found.kind = NativeKind::FILE;
            self.code.found.table = TableState::ABSENT;
        } else {
            self.lookups -= 1;
        }
        Some(&self.code.found)
    }
}

/// A walk that ends at code which is not known yet, and is continued when all is.
pub(super) fn walk_and_resume(
    stack: &[u64],
    start: &Start,
    python: PythonFrames<'_>,
    mut so_far: KnownSoFar<'_>,
) -> Walked {
    let mut walk = Box::new(NativeWalk::new());
    let mut walked = walk_with(&mut walk, stack.to_vec(), start, python, &mut so_far);
    let is_without_table = walked.end == NativeUnwindStatus::NO_TABLE;
    if !is_without_table && walked.end != NativeUnwindStatus::UNMAPPED {
        return walked;
    }
    if is_without_table {
        walked.frames.pop();
    }
    let kept = walk.stack.kept() - u32::from(is_without_table);
    let mut rest = Box::new(NativeWalk::new());
    rest.resume(&walk.position, kept);
    let stack = padded(stack.to_vec());
    let mut scratch = Box::new(Scratch::new());
    walked.end = loop {
        match rest.step(&stack, &mut scratch, python, so_far.code) {
            NativeStep::Next if walked.steps < MAX_NATIVE_VISITED => walked.steps += 1,
            NativeStep::Next => break NativeUnwindStatus::TOO_DEEP,
            NativeStep::End(end) => break end,
        }
    };
    rest.stack.push_pending_run();
    walked.frames.extend(rest.stack.entries());
    walked
}

/// Entries of runs of Python frames that follow each other are one.
pub(super) fn merged(frames: &[NativeFrame]) -> Vec<NativeFrame> {
    let mut merged: Vec<NativeFrame> = Vec::new();
    for frame in frames {
        match merged.last_mut() {
            Some(last) if last.kind == NativeKind::PYTHON && frame.kind == NativeKind::PYTHON => {
                last.id_or_count += frame.id_or_count;
            }
            _ => merged.push(*frame),
        }
    }
    merged
}
