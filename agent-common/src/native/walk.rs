//! The walk of a thread's native frames, leaf to root.
//!
//! The unwind table of the file has a rule for each address: how the caller's stack pointer (the CFA)
//! is computed, and where the return address and the registers that later rules need are saved. Code
//! without a rule is unwound by its frame pointer. The frames of an interpreter's evaluation loops are
//! replaced by the *runs* of Python frames that they evaluate.
//!
//! Invariants: one step visits one frame and reads a bounded number of bytes; a frame that does not
//! lie above the one before ends the walk, unless its rule marks a switch to another stack, of which
//! there may be as many as frames are visited; of a deeper stack than the limit the leaf-most frames
//! are kept.

use crate::{
    layout::RunStyle,
    maps::TableState,
    memory::{UserAddr, UserMemory},
    python::PythonRuns,
    record::{NativeKind, NativeUnwindStatus},
    scratch::{SLOT, Scratch},
    unwind::{CfaRule, Rule, RuleFlags, Saved},
    volatile::{Volatile, masked},
};

use super::{
    arch::{Arch, PROGRAM_COUNTER, REGISTER_COUNT},
    location::{CodeLocation, CodeLookup},
    stack::NativeStack,
};

/// The architecture whose frames are walked.
const ARCH: Arch = Arch::CURRENT;

/// Bytes below the CFA in which the registers of the caller are saved as a rule.
const SAVED_BYTES: u64 = 128;

/// Most bytes of a frame that is left by its frame pointer: one that leads further is none.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The value of a register that is not recoverable.
const LOST: u64 = u64::MAX;

/// Runs that are compared with one frame.
const RUNS_PER_FRAME: u32 = 4;

/// The Python frames of the thread.
#[derive(Clone, Copy, Debug)]
pub struct PythonFrames<'a> {
    /// Which of them run in one evaluation loop.
    pub runs: &'a PythonRuns,
    /// How many there are.
    pub depth: u32,
    /// How runs are distinguished.
    pub style: RunStyle,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeStep {
    /// There is another frame.
    Next,
    /// The walk is over.
    End(NativeUnwindStatus),
}

/// A walk, and its frames.
#[repr(C)]
#[derive(Debug)]
pub struct NativeWalk {
    pc: Volatile<u64>,
    registers: [Volatile<u64>; REGISTER_COUNT],
    /// Where the bytes of the stack that are in the window start, and how many there are.
    window: Volatile<u64>,
    window_bytes: Volatile<u64>,
    /// 1 when the code was interrupted at `pc`, 0 when it called and will return to it.
    is_interrupted: Volatile<u32>,
    /// 1 when something that had to be read could not be.
    is_fault: Volatile<u32>,
    /// Frames visited.
    visited: Volatile<u32>,
    /// The next run.
    run: Volatile<u32>,
    /// Python frames that are part of the stack already.
    claimed: Volatile<u32>,
    /// The frames that were kept.
    pub stack: NativeStack,
}

impl NativeWalk {
    /// A walk that has not started.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pc: Volatile::new(0),
            registers: [const { Volatile::new(0) }; REGISTER_COUNT],
            window: Volatile::new(0),
            window_bytes: Volatile::new(0),
            is_interrupted: Volatile::new(0),
            is_fault: Volatile::new(0),
            visited: Volatile::new(0),
            run: Volatile::new(0),
            claimed: Volatile::new(0),
            stack: NativeStack::new(),
        }
    }

    /// Removes the frames of the last walk; hashes start from `seed`.
    #[inline(always)]
    pub fn clear(&mut self, seed: u64) {
        self.stack.clear(seed);
        self.window_bytes.set(0);
        self.is_fault.set(0);
        self.visited.set(0);
        self.run.set(0);
        self.claimed.set(0);
        self.is_interrupted.set(1);
    }

    /// Starts at `pc`; [`set_register`](Self::set_register) sets the registers.
    #[inline(always)]
    pub fn begin(&mut self, pc: u64) {
        self.pc.set(pc);
    }

    /// Sets a register, by DWARF's number.
    #[inline(always)]
    pub fn set_register(&mut self, number: u8, value: u64) {
        self.registers[masked(number.into(), REGISTER_COUNT as u32 - 1) as usize].set(value);
    }

    #[inline(always)]
    fn register(&self, number: u8) -> u64 {
        self.registers[masked(number.into(), REGISTER_COUNT as u32 - 1) as usize].get()
    }

    /// Frames visited.
    #[inline(always)]
    #[must_use]
    pub fn visited(&self) -> u32 {
        self.visited.get()
    }

    /// Visits up to `count` frames.
    #[inline(always)]
    pub fn walk_frames<M: UserMemory, C: CodeLookup>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        python: PythonFrames<'_>,
        code: &mut C,
        count: u32,
    ) -> NativeStep {
        let mut nth = 0;
        while nth < count {
            let step = self.step(memory, scratch, python, code);
            if step != NativeStep::Next {
                return step;
            }
            nth += 1;
        }
        NativeStep::Next
    }

    /// Visits one frame.
    #[inline(always)]
    pub fn step<M: UserMemory, C: CodeLookup>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        python: PythonFrames<'_>,
        code: &mut C,
    ) -> NativeStep {
        let is_interrupted = self.is_interrupted.get() != 0;
        let pc = self.pc.get();
        let address = if is_interrupted {
            pc
        } else {
            pc.wrapping_sub(1)
        };
        let Some(place) = code.find(address) else {
            return NativeStep::End(NativeUnwindStatus::UNMAPPED);
        };
        if place.kind != NativeKind::FILE && place.kind != NativeKind::ANONYMOUS {
            return NativeStep::End(NativeUnwindStatus::UNMAPPED);
        }
        self.visited.set(self.visited.get() + 1);
        let mut rule = place.rule;
        let is_unknown = rule.cfa == CfaRule::UNKNOWN;
        if is_unknown && !is_interrupted && memory.word_or_zero(UserAddr(pc)) == ARCH.signal_return
        {
            rule.cfa = CfaRule::SIGNAL;
        }
        if rule.cfa == CfaRule::SIGNAL {
            return self.unwind_signal_frame(memory, scratch, place);
        }
        let stack_pointer = self.register(ARCH.stack_pointer);
        let (cfa, end) = self.find_cfa(memory, place, &mut rule, is_interrupted);
        let top = rule.flags.on_same_stack(cfa);
        if end == NativeUnwindStatus::NOT_WALKED
            && self.runs_python(python, rule, stack_pointer, top)
        {
            // The run of Python frames stands for it.
        } else if !self.stack.push_frame(place) {
            return NativeStep::End(NativeUnwindStatus::TOO_DEEP);
        }
        if end != NativeUnwindStatus::NOT_WALKED {
            return NativeStep::End(end);
        }
        self.unwind_frame(memory, scratch, rule, cfa)
    }

    /// The caller's stack pointer, or why it is unknown; a frame without a rule gets that of
    /// frame pointers.
    #[inline(always)]
    fn find_cfa<M: UserMemory>(
        &self,
        memory: &M,
        place: &CodeLocation,
        rule: &mut Rule,
        is_interrupted: bool,
    ) -> (u64, NativeUnwindStatus) {
        const FOUND: NativeUnwindStatus = NativeUnwindStatus::NOT_WALKED;
        let stack_pointer = self.register(ARCH.stack_pointer);
        if rule.cfa == CfaRule::END {
            return (0, NativeUnwindStatus::COMPLETE);
        }
        if rule.cfa == CfaRule::PLT {
            let is_later = (place.address & 15) as i32 >= rule.offset;
            let pushed = if is_later { 8 } else { 0 };
            let cfa = stack_pointer.wrapping_add_signed(i64::from(rule.addend) + pushed);
            return (cfa, FOUND);
        }
        if rule.cfa == CfaRule::UNKNOWN {
            if place.table == TableState::ABSENT || place.table == TableState::WANTED {
                return (0, NativeUnwindStatus::NO_TABLE);
            }
            let frame_pointer = self.register(ARCH.frame_pointer);
            let distance = frame_pointer.wrapping_sub(stack_pointer);
            if frame_pointer == 0 && !is_interrupted {
                return (0, NativeUnwindStatus::COMPLETE);
            }
            if distance >= MAX_FRAME_BYTES || !frame_pointer.is_multiple_of(8) {
                return (0, NativeUnwindStatus::NO_RULE);
            }
            rule.frame_pointer = Saved::at(-2);
            rule.return_address = Saved::at(-1);
            return (frame_pointer.wrapping_add(16), FOUND);
        }
        let number = rule.register;
        // Others are those of the interrupted code: where a caller relies on one, its callees, which
        // are assembly code, leave it alone.
        let (first, last) = ARCH.untracked;
        if number >= first && number <= last && !is_interrupted {
            return (0, NativeUnwindStatus::NO_RULE);
        }
        let mut start = self.register(number);
        if rule.cfa == CfaRule::INDEXED {
            start = stack_pointer.wrapping_add(start.wrapping_mul(8));
        }
        let mut cfa = start.wrapping_add_signed(rule.offset.into());
        if rule.cfa == CfaRule::DEREFERENCED || rule.cfa == CfaRule::INDEXED {
            cfa = memory
                .word_or_zero(UserAddr(cfa))
                .wrapping_add_signed(rule.addend.into());
        }
        let may_stay = is_interrupted && ARCH.link.is_some();
        let lowest = rule.flags.on_same_stack(stack_pointer);
        if cfa < lowest || cfa == lowest && !may_stay || !cfa.is_multiple_of(8) {
            return (0, NativeUnwindStatus::CFA_NOT_ABOVE);
        }
        (cfa, FOUND)
    }

    /// Whether the frame between these addresses is that of an evaluation loop; the Python frames
    /// that it runs are then part of the stack, and those of loops that were not recognised.
    #[inline(always)]
    fn runs_python(
        &mut self,
        python: PythonFrames<'_>,
        rule: Rule,
        stack_pointer: u64,
        cfa: u64,
    ) -> bool {
        let claimed = self.claimed.get();
        if python.style == RunStyle::EACH {
            if !rule.flags.has(RuleFlags::EVALUATES) || claimed >= python.depth {
                return false;
            }
            self.claimed.set(claimed + 1);
            self.stack.add_pending(1);
            return true;
        }
        let first = self.run.get();
        let mut nth = 0;
        while nth < RUNS_PER_FRAME {
            let index = first.wrapping_add(nth);
            if index >= python.runs.count() {
                return false;
            }
            let run = python.runs.get(index);
            if run.address >= stack_pointer && run.address < cfa {
                self.run.set(index + 1);
                self.claimed.set(run.depth);
                let fresh = run.depth.wrapping_sub(claimed);
                self.stack.add_pending(fresh);
                return true;
            }
            nth += 1;
        }
        false
    }

    /// Moves to the caller.
    #[inline(always)]
    fn unwind_frame<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        rule: Rule,
        cfa: u64,
    ) -> NativeStep {
        self.load_stack_window(memory, scratch, cfa.wrapping_sub(SAVED_BYTES), cfa);
        let pc = if rule.return_address == Saved::UNCHANGED {
            self.register(ARCH.link.unwrap_or(0))
        } else {
            self.saved(scratch, cfa, rule.return_address)
        };
        if rule.flags.has(RuleFlags::BY_FRAME_POINTER) {
            let frame_pointer = self.register(ARCH.frame_pointer);
            let at = frame_pointer.wrapping_add_signed(rule.frame_pointer.bytes());
            let saved = memory.word_or_zero(UserAddr(at));
            self.set_register(ARCH.frame_pointer, saved);
        } else if rule.frame_pointer != Saved::UNCHANGED {
            let saved = self.saved(scratch, cfa, rule.frame_pointer);
            self.set_register(ARCH.frame_pointer, saved);
        }
        if rule.base != Saved::UNCHANGED {
            let saved = self.saved(scratch, cfa, rule.base);
            self.set_register(ARCH.base, saved);
        }
        if self.is_fault.get() != 0 {
            return NativeStep::End(NativeUnwindStatus::FAULT);
        }
        let pc = pc & ARCH.code_mask;
        if pc == 0 {
            return NativeStep::End(NativeUnwindStatus::COMPLETE);
        }
        self.pc.set(pc);
        self.set_register(ARCH.stack_pointer, cfa);
        self.is_interrupted.set(0);
        NativeStep::Next
    }

    /// Moves to the code that a signal has interrupted.
    #[inline(always)]
    fn unwind_signal_frame<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        place: &CodeLocation,
    ) -> NativeStep {
        if !self.stack.push_frame(place) {
            return NativeStep::End(NativeUnwindStatus::TOO_DEEP);
        }
        let saved = self.register(ARCH.stack_pointer);
        let saved = UserAddr(saved.wrapping_add(ARCH.signal_registers));
        let bytes = ARCH.saved.len() as u16 * 8;
        if scratch.load_slot(memory, saved, bytes).is_err() {
            return NativeStep::End(NativeUnwindStatus::FAULT);
        }
        let mut nth = 0;
        while nth < ARCH.saved.len() {
            let value = scratch.word(SLOT + nth * 8);
            let number = ARCH.saved[nth];
            if number == PROGRAM_COUNTER {
                self.pc.set(value);
            } else {
                self.set_register(number, value);
            }
            nth += 1;
        }
        self.is_interrupted.set(1);
        NativeStep::Next
    }

    /// Loads the bytes of the stack from `from` to `to` into the window, if they are not there, with as
    /// many of the next ones as one read can copy.
    #[inline(always)]
    fn load_stack_window<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        from: u64,
        to: u64,
    ) {
        const PAGE: u64 = 4096;
        let window = self.window.get();
        let is_there = from >= window && to <= window.wrapping_add(self.window_bytes.get());
        if is_there && self.window_bytes.get() != 0 {
            return;
        }
        let mut from = from & !7;
        // Up to the end of the next page: the end of a stack is that of a page.
        let rest = PAGE - from % PAGE;
        let mut bytes = rest + PAGE;
        if scratch
            .try_load_window(memory, UserAddr(from), bytes)
            .is_err()
        {
            bytes = rest;
            if scratch
                .try_load_window(memory, UserAddr(from), bytes)
                .is_err()
            {
                // What was saved is still used when the stack pointer is above it again, but memory
                // may begin at the stack pointer.
                from = self.register(ARCH.stack_pointer) & !7;
                bytes = PAGE - from % PAGE;
                if scratch.load_window(memory, UserAddr(from), bytes).is_err() {
                    bytes = 0;
                }
            }
        }
        self.window.set(from);
        self.window_bytes.set(bytes);
    }

    /// A register of the caller; of one that is lost what no address can be.
    #[inline(always)]
    fn saved(&mut self, scratch: &Scratch, cfa: u64, saved: Saved) -> u64 {
        if saved == Saved::LOST {
            return LOST;
        }
        let at = cfa.wrapping_add_signed(saved.bytes());
        let distance = at.wrapping_sub(self.window.get());
        if distance >= self.window_bytes.get() {
            self.is_fault.set(1);
            return 0;
        }
        scratch.word(distance as usize & (crate::limits::WINDOW_BYTES - 1))
    }
}

impl Default for NativeWalk {
    fn default() -> Self {
        Self::new()
    }
}
