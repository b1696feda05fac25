//! From the table that the Go linker leaves of its functions to rows.
//!
//! It tells how much of the stack a function has in use at each instruction, so where the CFA is.
//! On x86-64 the frame pointer of the caller is saved right below the return address by every
//! function that uses any of the stack, which its first instructions do; assembly code is looked
//! at. On aarch64 the return address is at the other end of the frame, which may be too far for a
//! rule: there frame pointers are followed, which all functions keep that call others.
//!
//! Stacks end where Go says, and where a goroutine hands over to its scheduler. What runs on the
//! scheduler's stack on behalf of a goroutine is followed back: the frame pointer stays where it
//! was, in the frame of the function that switches if that has one (since Go 1.21 all have), else
//! in that of its caller, which is then left out.

use std::ops::Range;

use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use gimli::Register;

use super::{
    code::Code,
    evaluate::{Budget, Output},
    machine::Machine,
    reason::{Reason, Unknown},
    rows::Row,
    rules::Rules,
};
use crate::binaries::elf::{Elf, GoFunction, GoTable, Source, StackSize};

/// Bytes of a word of the stack.
const WORD: i32 = 8;

/// Most parts of a function that are looked at; those of compilers have hundreds.
const MAX_SIZES: usize = 1 << 14;

/// What a function is to a walk, if it is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Nobody has called it, or what it does is not done for its caller.
    End,
    /// What a signal handler returns to.
    SignalReturn,
    /// It goes to another stack, and the frame pointer stays on the one that it comes from.
    Switch,
    /// Any other.
    Usual,
}

impl Role {
    fn of(function: &GoFunction<'_>) -> Self {
        // What the compiler makes may go by the same name, to call it with other registers.
        if function.is_assembly() == Some(false) {
            return Self::Usual;
        }
        match function.name() {
            // At the first two a goroutine leaves its stack for that of its scheduler, which then
            // does something of its own; the others are not marked by older versions.
            b"runtime.mcall" | b"runtime.morestack" | b"runtime.goexit" | b"runtime.mstart"
            | b"runtime.rt0_go" => Self::End,
            b"runtime.systemstack" | b"runtime.asmcgocall" => Self::Switch,
            // That has a caller: the kernel has put its address there.
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
pub(super) struct Functions<'a, S> {
    pub(super) elf: &'a Elf<S>,
    pub(super) table: &'a GoTable,
    pub(super) machine: &'a Machine,
    pub(super) code: &'a Code,
}

impl<S: Source> Functions<'_, S> {
    /// The rows; what has none is not of Go.
    pub(super) fn rows(
        &self,
        budget: &mut Budget,
        rules: &mut Rules,
        unknown: &mut Unknown,
    ) -> Vec<Row> {
        let mut output = Output::new(budget, rules, unknown);
        let mut functions = self.table.functions().peekable();
        while let Some(function) = functions.next() {
            let next = functions.peek().map(Role::of);
            // A return address is looked up by the byte before it: the kernel has put the start of
            // this one on the stack, and no call that is before it.
            let taken = u64::from(next == Some(Role::SignalReturn));
            let role = Role::of(&function);
            let start = match role {
                Role::SignalReturn => function.start.saturating_sub(1),
                _ => function.start,
            };
            let bytes = function.end.saturating_sub(taken).saturating_sub(start);
            match self.code.distances(start, bytes) {
                None => output.unknown.count(Reason::NoCode),
                Some(range) => self.add(&function, role, range, &mut output),
            }
        }
        output.finish()
    }

    /// Adds the rows of a function.
    fn add(
        &self,
        function: &GoFunction<'_>,
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
            Role::Switch | Role::Usual => self.add_sizes(function, role, range, output),
        }
    }

    /// Adds a row for each part of a function that has another size of the stack in use.
    fn add_sizes(
        &self,
        function: &GoFunction<'_>,
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
        let mut position = within.start;
        for StackSize { range, bytes } in sizes {
            let by_frame_pointer = match role {
                Role::Switch => bytes > 0 || saved_from.is_none(),
                _ => bytes > 0 && self.machine.has_link_register,
            };
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
                    self.by_stack_pointer(bytes, is_saved)
                };
                output.add(position..end, found);
                position = end;
            }
        }
        if output.budget.is_spent() && position < within.end {
            output.add(position..within.end, Err(Reason::TooMany));
        }
    }

    /// The rule where so many bytes of the stack are in use.
    fn by_stack_pointer(&self, bytes: i32, is_saved: bool) -> Result<Rule, Reason> {
        let (pushed, return_address) = if self.machine.has_link_register {
            (0, Saved::UNCHANGED)
        } else {
            (WORD, Saved::at(-1))
        };
        let frame_pointer = if is_saved && bytes > 0 {
            Saved::at(-2)
        } else {
            Saved::UNCHANGED
        };
        let offset = bytes.checked_add(pushed).filter(|offset| *offset >= pushed);
        Ok(Rule {
            offset: offset.ok_or(Reason::FrameOffset)?,
            return_address,
            frame_pointer,
            ..self.from(self.machine.stack_pointer)?
        })
    }

    /// The rule where the frame pointer stands at what its caller's is saved in.
    fn by_frame_pointer(&self, role: Role) -> Result<Rule, Reason> {
        let flags = match role {
            Role::Switch => RuleFlags::SWITCHES,
            _ => RuleFlags::default(),
        };
        Ok(Rule {
            flags,
            offset: 2 * WORD,
            return_address: Saved::at(-1),
            frame_pointer: Saved::at(-2),
            ..self.from(self.machine.frame_pointer)?
        })
    }

    /// A rule whose CFA is counted from a register.
    fn from(&self, register: Register) -> Result<Rule, Reason> {
        Ok(Rule {
            cfa: CfaRule::REGISTER,
            register: self
                .machine
                .general(register)
                .ok_or(Reason::FrameRegister)?,
            // Go's functions save no other register for their callers.
            base: self.machine.base.map_or(Saved::UNCHANGED, |_| Saved::LOST),
            ..Rule::UNKNOWN
        })
    }

    /// From which address on the caller's frame pointer is saved, where `first` is the first part
    /// of a function that uses the stack; [`None`] if it is not.
    fn saved_from(&self, function: &GoFunction<'_>, first: &StackSize) -> Option<u64> {
        let start = first.range.start;
        let displacement = first.bytes.checked_sub(WORD)?;
        let store_bytes = match displacement {
            0 => 4,
            1..=0x7f => 5,
            _ => 8,
        };
        if function.is_assembly() == Some(false) || self.machine.has_link_register {
            // What is one word has been pushed, or soon will be stored.
            let after = if displacement == 0 { 0 } else { store_bytes };
            return Some(start + after);
        }
        // With the last byte of the instruction before.
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
