//! A native frame, and the way to its caller: the registers, and the stack that rules read.

use crate::{
    limits::WINDOW_BYTES,
    maps::TableState,
    memory::{UserAddr, UserMemory},
    record::NativeUnwindStatus,
    scratch::{SLOT, Scratch},
    unwind::{CfaRule, Rule, RuleFlags, Saved},
    volatile::{Volatile, masked},
};

use super::{
    arch::{Arch, PROGRAM_COUNTER, REGISTER_COUNT},
    location::CodeLocation,
};

/// The architecture whose frames are walked.
pub(super) const ARCH: Arch = Arch::CURRENT;

/// Bytes below the CFA in which the registers of the caller are saved as a rule, where a call pushes the return address.
const SAVED_BYTES: u64 = 128;

/// Most bytes of a frame that is left by its frame pointer: one that leads further is none.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The value of a register that is not recoverable.
const LOST: u64 = u64::MAX;

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeStep {
    /// There is another frame.
    Next,
    /// The walk is over.
    End(NativeUnwindStatus),
}

/// The registers of a frame, and which part of the stack is in the window.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NativeFrameState {
    pub(super) pc: Volatile<u64>,
    registers: [Volatile<u64>; REGISTER_COUNT],
    /// Where the bytes of the stack that are in the window start, and how many there are.
    window: Volatile<u64>,
    window_bytes: Volatile<u64>,
    /// Where the stack is expected to begin, 0 where that is not known.
    stack_start: Volatile<u64>,
    /// 1 when the code was interrupted at `pc`, 0 when it called and will return to it.
    pub(super) is_interrupted: Volatile<u16>,
    /// 1 when only the frame pointer is known, and the stack pointer not.
    is_by_frame_pointer: Volatile<u16>,
    /// 1 when something that had to be read could not be.
    is_fault: Volatile<u32>,
}

impl NativeFrameState {
    /// No frame.
    pub(super) const fn new() -> Self {
        Self {
            pc: Volatile::new(0),
            registers: [const { Volatile::new(0) }; REGISTER_COUNT],
            window: Volatile::new(0),
            window_bytes: Volatile::new(0),
            stack_start: Volatile::new(0),
            is_interrupted: Volatile::new(0),
            is_by_frame_pointer: Volatile::new(0),
            is_fault: Volatile::new(0),
        }
    }

    /// At code that was interrupted, with nothing in the window.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.window_bytes.set(0);
        self.is_fault.set(0);
        self.is_interrupted.set(1);
        self.is_by_frame_pointer.set(0);
    }

    /// At the same place as another one, with nothing in the window.
    #[cfg(feature = "user")]
    pub(super) fn resume(&mut self, other: &Self) {
        self.clear();
        self.pc.set(other.pc.get());
        for (register, value) in self.registers.iter_mut().zip(&other.registers) {
            register.set(value.get());
        }
        self.is_interrupted.set(other.is_interrupted.get());
        self.is_by_frame_pointer
            .set(other.is_by_frame_pointer.get());
        self.stack_start.set(0);
    }

    /// Sets where the stack is expected to begin, 0 where that is not known.
    #[inline(always)]
    pub(super) fn expect_stack_start(&mut self, address: u64) {
        self.stack_start.set(address);
    }

    /// Sets a register, by DWARF's number.
    #[inline(always)]
    pub(super) fn set_register(&mut self, number: u8, value: u64) {
        self.registers[masked(number.into(), REGISTER_COUNT as u32 - 1) as usize].set(value);
    }

    #[inline(always)]
    pub(super) fn register(&self, number: u8) -> u64 {
        self.registers[masked(number.into(), REGISTER_COUNT as u32 - 1) as usize].get()
    }

    /// The caller's stack pointer, or why it is unknown; a frame without a rule gets that of
    /// frame pointers.
    #[inline(always)]
    pub(super) fn find_cfa<M: UserMemory>(
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
            if place.table == TableState::ABSENT {
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
        // Others are those of the interrupted code: where a caller relies on one, its callees,
        // which are assembly code, leave it alone.
        let (first, last) = ARCH.untracked;
        if number >= first && number <= last && !is_interrupted {
            return (0, NativeUnwindStatus::NO_RULE);
        }
        let mut start = self.register(number);
        if rule.cfa == CfaRule::INDEXED {
            start = stack_pointer.wrapping_add(start.wrapping_mul(8));
        }
        let mut cfa = start.wrapping_add_signed(rule.offset.into());
        if ARCH.link.is_some()
            && self.is_by_frame_pointer.get() != 0
            && number == ARCH.stack_pointer
        {
            let is_saved = rule.frame_pointer != Saved::UNCHANGED
                && rule.frame_pointer != Saved::LOST
                && !rule.flags.has(RuleFlags::BY_FRAME_POINTER);
            if !is_saved || rule.cfa != CfaRule::REGISTER {
                return (0, NativeUnwindStatus::NO_RULE);
            }
            // It points at where its function has saved that of its caller.
            let frame_pointer = self.register(ARCH.frame_pointer);
            cfa = frame_pointer.wrapping_add_signed(-rule.frame_pointer.bytes());
        }
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

    /// Moves to the caller.
    #[inline(always)]
    pub(super) fn unwind_frame<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        rule: Rule,
        cfa: u64,
    ) -> NativeStep {
        let (from, to) = saved_registers(rule, cfa);
        self.load_stack_window(memory, scratch, from, to);
        let pc = if rule.return_address == Saved::UNCHANGED {
            if ARCH.link.is_some() && self.is_interrupted.get() == 0 {
                // What it called has changed the register.
                return NativeStep::End(NativeUnwindStatus::NO_RULE);
            }
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
        if ARCH.link.is_some() {
            // Above the two registers that were saved is more of this frame, of unknown size.
            let is_by_frame_pointer =
                rule.cfa == CfaRule::UNKNOWN || rule.flags.has(RuleFlags::SWITCHES);
            self.is_by_frame_pointer.set(is_by_frame_pointer.into());
        }
        NativeStep::Next
    }

    /// Moves to the code that a signal has interrupted.
    #[inline(always)]
    pub(super) fn unwind_signal_frame<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
    ) -> NativeStep {
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
        self.is_by_frame_pointer.set(0);
        NativeStep::Next
    }

    /// Loads the bytes of the stack from `from` to `to` into the window, if they are not there,
    /// with the next ones: up to where the stack is expected to begin, or as many as one read can
    /// copy.
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
        let expected = self.stack_start.get().wrapping_sub(from);
        if expected >= to.wrapping_sub(from)
            && expected <= WINDOW_BYTES as u64
            && scratch
                .try_load_window(memory, UserAddr(from), expected)
                .is_ok()
        {
            self.window.set(from);
            self.window_bytes.set(expected);
            return;
        }
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
        scratch.word(distance as usize & (WINDOW_BYTES - 1))
    }
}

/// From where to where a frame with this CFA has saved registers of its caller that a rule needs.
#[inline(always)]
fn saved_registers(rule: Rule, cfa: u64) -> (u64, u64) {
    if ARCH.link.is_none() {
        return (cfa.wrapping_sub(SAVED_BYTES), cfa);
    }
    // Anywhere in the frame, mostly side by side at its end, where the stack pointer is.
    let place = |saved: Saved| {
        if saved == Saved::UNCHANGED || saved == Saved::LOST {
            None
        } else {
            Some(cfa.wrapping_add_signed(saved.bytes()))
        }
    };
    let (first, second) = (place(rule.return_address), place(rule.frame_pointer));
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (Some(only), None) | (None, Some(only)) => (only, only),
        (None, None) => (cfa, cfa),
    };
    (first.min(second), first.max(second).wrapping_add(8))
}
