//! From the Go linker's table of functions to rows.
//!
//! The table has the size of a function's stack frame at each instruction, and so the CFA. On x86-64
//! the first instructions of every function that uses the stack save the caller's frame pointer
//! right below the return address; for functions in assembly the instructions are checked. On
//! aarch64 the return address is at the other end of the frame, where the stack pointer is, and the
//! caller's frame pointer right below it. Frame pointers alone are not enough there: until Go 1.20
//! those that are saved are wrong after a stack was moved to one that is larger.
//!
//! Stacks end where the table marks it, and where a goroutine switches to its scheduler. Code that
//! runs on the scheduler's stack on behalf of a goroutine is unwound into the goroutine: the frame
//! pointer still refers to it, to the frame of the function that switches if it has one (all have
//! since Go 1.21), else to its caller's frame, and the caller is then missing.

use std::ops::Range;

use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use gimli::Register;

use super::{
    arch::Arch,
    code_ranges::CodeRanges,
    evaluate::{Budget, Output},
    reason::{UnknownCounts, UnknownReason},
    rows::Row,
    rules::Rules,
};
use crate::binaries::elf::{Elf, GoFunction, GoTable, Source, StackSize};

/// Bytes of a word of the stack.
const WORD: i32 = 8;

/// Most stack sizes of a function; compiled functions have hundreds.
const MAX_SIZES: usize = 1 << 14;

/// How a function is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The stack ends: it has no caller, or does not run on its caller's behalf.
    End,
    /// Signal handlers return to it.
    SignalReturn,
    /// It switches to another stack; the frame pointer stays on the first one.
    Switch,
    /// A handler of signals made code call it that did not.
    Injected,
    /// By its stack sizes.
    Usual,
}

impl Role {
    fn of<S: Source>(function: &GoFunction<'_, S>) -> Self {
        // A compiled wrapper, for another calling convention, has the same name.
        if function.is_assembly() == Some(false) {
            return match &*function.name() {
                b"runtime.sigpanic" => Self::Injected,
                _ => Self::Usual,
            };
        }
        match &*function.name() {
            b"runtime.sigpanic" | b"runtime.asyncPreempt" | b"runtime.debugCallV2" => {
                Self::Injected
            }
            // In the first two a goroutine switches to its scheduler's stack, where the scheduler
            // runs on its own behalf; older versions of Go do not mark the others.
            b"runtime.mcall" | b"runtime.morestack" | b"runtime.goexit" | b"runtime.mstart"
            | b"runtime.rt0_go" => Self::End,
            b"runtime.systemstack" | b"runtime.asmcgocall" => Self::Switch,
            // It has a caller: the kernel put the return address on the stack.
            b"runtime.sigtramp" => Self::Usual,
            b"runtime.sigreturn" | b"runtime.sigreturn__sigaction" => Self::SignalReturn,
            name if name.starts_with(b"_rt0_") => Self::End,
            _ if function.is_outermost() => Self::End,
            _ if function.sets_stack_pointer() => Self::Switch,
            _ => Self::Usual,
        }
    }
}

/// The rows of all functions of a Go program.
pub(super) struct GoFunctions<'a, S> {
    pub(super) elf: &'a Elf<S>,
    pub(super) table: &'a GoTable<&'a S>,
    pub(super) arch: &'a Arch,
    pub(super) code: &'a CodeRanges,
}

impl<S: Source> GoFunctions<'_, S> {
    /// The rows of Go's functions.
    pub(super) fn rows(
        &self,
        budget: &mut Budget,
        rules: &mut Rules,
        unknown: &mut UnknownCounts,
    ) -> Vec<Row> {
        let mut output = Output::new(budget, rules, unknown);
        let mut functions = self.table.functions().peekable();
        while let Some(function) = functions.next() {
            let next = functions.peek().map(Role::of);
            // Return addresses are looked up minus one. The kernel put the start of the next
            // function on the stack, without a call before it: its row starts one byte earlier.
            let taken = u64::from(next == Some(Role::SignalReturn));
            let role = Role::of(&function);
            let start = match role {
                Role::SignalReturn => function.start.saturating_sub(1),
                _ => function.start,
            };
            let bytes = function.end.saturating_sub(taken).saturating_sub(start);
            match self.code.distances(start, bytes) {
                None => output.unknown.count(UnknownReason::NoCode),
                Some(range) => self.add(&function, role, range, &mut output),
            }
        }
        output.finish()
    }

    /// Adds the rows of a function.
    fn add(
        &self,
        function: &GoFunction<'_, &S>,
        role: Role,
        range: Range<u32>,
        output: &mut Output<'_>,
    ) {
        let only = |cfa| Rule {
            cfa,
            ..Rule::UNKNOWN
        };
        match role {
            Role::End => output.add(range, Ok(only(CfaRule::END))),
            Role::SignalReturn => output.add(range, Ok(only(CfaRule::SIGNAL))),
            Role::Switch | Role::Injected | Role::Usual => {
                self.add_sizes(function, role, range, output);
            }
        }
    }

    /// Adds a row for each stack size of a function.
    fn add_sizes(
        &self,
        function: &GoFunction<'_, &S>,
        role: Role,
        within: Range<u32>,
        output: &mut Output<'_>,
    ) {
        let sizes: Vec<_> = function
            .stack_sizes()
            .take(MAX_SIZES)
            .take_while(|_| output.budget.take_row())
            .collect();
        let first = sizes.iter().find(|size| size.bytes > 0);
        let saved_from = first.and_then(|first| self.saved_from(function, first));
        // Assembly code with a frame of its own making.
        let is_special = self.arch.has_link_register && first.is_some() && saved_from.is_none();
        let role = if is_special { Role::Switch } else { role };
        let mut position = within.start;
        for StackSize { range, bytes } in sizes {
            let by_frame_pointer = role == Role::Switch && (bytes > 0 || saved_from.is_none());
            let middle = saved_from.unwrap_or(u64::MAX);
            let middle = middle.clamp(range.start, range.end);
            for (part, is_saved) in [(range.start..middle, false), (middle..range.end, true)] {
                let distances = self.code.distances(part.start, part.end - part.start);
                let end = distances.map_or(position, |it| it.end.min(within.end));
                if end <= position {
                    continue;
                }
                let found = if by_frame_pointer {
                    self.by_frame_pointer(role)
                } else {
                    self.by_stack_pointer(bytes, is_saved, role)
                };
                output.add(position..end, found);
                position = end;
            }
        }
        if output.budget.is_exhausted() && position < within.end {
            output.add(position..within.end, Err(UnknownReason::TooMany));
        }
    }

    /// The rule for a stack size of `bytes`.
    fn by_stack_pointer(
        &self,
        bytes: i32,
        is_saved: bool,
        role: Role,
    ) -> Result<Rule, UnknownReason> {
        // Between the frame and the CFA, and words from there to the return address; the frame pointer is one further.
        let (pushed, distance) = match role {
            _ if !self.arch.has_link_register => (WORD, 1),
            // The handler has saved the register with the return address of the code that it made call.
            Role::Injected => (2 * WORD, bytes / WORD + 2),
            _ => (0, bytes / WORD),
        };
        let distance = i16::try_from(distance).ok();
        let distance = distance
            .filter(|words| *words < i16::MAX - 1)
            .ok_or(UnknownReason::FrameOffset)?;
        let return_address = if self.arch.has_link_register && bytes == 0 {
            Saved::UNCHANGED
        } else {
            Saved::at(-distance)
        };
        let frame_pointer = if is_saved && bytes > 0 {
            Saved::at(-distance - 1)
        } else {
            Saved::UNCHANGED
        };
        let offset = bytes.checked_add(pushed).filter(|offset| *offset >= pushed);
        Ok(Rule {
            offset: offset.ok_or(UnknownReason::FrameOffset)?,
            return_address,
            frame_pointer,
            ..self.from(self.arch.stack_pointer)?
        })
    }

    /// The rule where the frame pointer holds the address of the caller's frame pointer.
    fn by_frame_pointer(&self, role: Role) -> Result<Rule, UnknownReason> {
        let flags = match role {
            Role::Switch => RuleFlags::SWITCHES,
            _ => RuleFlags::default(),
        };
        Ok(Rule {
            flags,
            offset: 2 * WORD,
            return_address: Saved::at(-1),
            frame_pointer: Saved::at(-2),
            ..self.from(self.arch.frame_pointer)?
        })
    }

    /// A rule whose CFA is relative to a register.
    fn from(&self, register: Register) -> Result<Rule, UnknownReason> {
        Ok(Rule {
            cfa: CfaRule::REGISTER,
            register: self
                .arch
                .general(register)
                .ok_or(UnknownReason::FrameRegister)?,
            // Go has no other callee-saved registers.
            base: self.arch.base.map_or(Saved::UNCHANGED, |_| Saved::LOST),
            ..Rule::UNKNOWN
        })
    }

    /// The address from which on the caller's frame pointer is saved; [`None`] if it is not.
    /// `first` is the first stack size above zero.
    fn saved_from(&self, function: &GoFunction<'_, &S>, first: &StackSize) -> Option<u64> {
        let start = first.range.start;
        if self.arch.has_link_register {
            /// `stur x29, [sp, #-8]`
            const STORE: [u8; 4] = 0xf81f_83fd_u32.to_le_bytes();
            // The instruction that allocates a frame saves the return address, the next one the frame pointer; a large
            // frame has both before it is allocated. Only then the register changes.
            let mut code = [0; STORE.len()];
            let is_compiled = function.is_assembly() == Some(false);
            let is_usual = is_compiled
                || self.elf.initial_bytes(start, &mut code).unwrap_or(false) && code == STORE;
            return is_usual.then_some(start + 4);
        }
        let displacement = first.bytes.checked_sub(WORD)?;
        let store_bytes = match displacement {
            0 => 4,
            1..=0x7f => 5,
            _ => 8,
        };
        if function.is_assembly() == Some(false) {
            // A frame of one word is pushed; others are stored by the next instruction.
            let after = if displacement == 0 { 0 } else { store_bytes };
            return Some(start + after);
        }
        // Including the last byte of the instruction before.
        let mut code = [0; 9];
        let is_there = self.elf.initial_bytes(start.checked_sub(1)?, &mut code);
        if !is_there.unwrap_or(false) {
            return None;
        }
        // push rbp; mov rbp, rsp
        if code.starts_with(&[0x55, 0x48, 0x89, 0xe5]) {
            return Some(start);
        }
        let displacement = displacement.to_le_bytes();
        let is_stored = match store_bytes {
            // mov [rsp + displacement], rbp
            4 => code[1..5] == [0x48, 0x89, 0x2c, 0x24],
            5 => code[1..6] == [0x48, 0x89, 0x6c, 0x24, displacement[0]],
            _ => code[1..5] == [0x48, 0x89, 0xac, 0x24] && code[5..] == displacement,
        };
        is_stored.then_some(start + store_bytes)
    }
}
