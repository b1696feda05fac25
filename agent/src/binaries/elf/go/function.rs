//! One function of the table.

use super::{stack_sizes::StackSizes, table::GoTable};
use crate::binaries::elf::{
    functions::{Binding, Function},
    numbers::u32_at,
};

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

/// A function of Go, or one written in its assembler.
#[derive(Clone, Copy, Debug)]
pub struct GoFunction<'a> {
    table: &'a GoTable,
    /// Its addresses before the load bias is added, with what lies between it and the next.
    pub start: u64,
    /// See [`start`](Self::start).
    pub end: u64,
    /// Where its description is.
    at: usize,
}

impl GoTable {
    /// The functions, in the order of their addresses if the table is as it should be.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction<'_>> {
        (0..self.count).filter_map(|index| {
            let (start, at) = self.entry(index);
            let (end, _) = self.entry(index + 1);
            let start = self.text.checked_add(start)?;
            let end = self.text.checked_add(end)?;
            let at = self.functions_base().checked_add(at)?;
            (start < end).then_some(GoFunction {
                table: self,
                start,
                end,
                at,
            })
        })
    }
}

impl<'a> GoFunction<'a> {
    /// Its name with its package, such as `runtime.mcall`; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        let table = self.table;
        let start = table.names.saturating_add(self.number(1) as usize);
        let rest = table.bytes.get(start..).unwrap_or_default();
        let rest = rest.get(..MAX_NAME).unwrap_or(rest);
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// What a symbol of it would be.
    #[must_use]
    pub fn symbol(&self) -> Function {
        Function {
            address: self.start,
            bytes: self.end - self.start,
            section_end: None,
            name: self.number(1),
            binding: Binding::Global,
            is_label: false,
        }
    }

    /// Whether nothing has called it: a stack ends with it.
    #[must_use]
    pub fn is_outermost(&self) -> bool {
        self.flags() & 1 != 0
    }

    /// Whether it sets the stack pointer in a way that [`Self::stack_sizes`] does not tell.
    #[must_use]
    pub fn sets_stack_pointer(&self) -> bool {
        self.flags() & 2 != 0
    }

    /// Whether it is written in assembler; [`None`] where the table does not tell.
    #[must_use]
    pub fn is_assembly(&self) -> Option<bool> {
        let tells = self.table.layout.has_distances;
        tells.then(|| self.flags() & 4 != 0)
    }

    /// How much of the stack it uses, in the order of addresses without a gap; nothing where that
    /// is not known.
    #[must_use]
    pub fn stack_sizes(&self) -> StackSizes<'a> {
        let table = self.table;
        let start = match self.number(4) as usize {
            0 => usize::MAX,
            offset => table.sizes.saturating_add(offset),
        };
        StackSizes {
            rest: table.bytes.get(start..).unwrap_or_default(),
            quantum: table.quantum,
            position: self.start,
            end: self.end,
            bytes: -1,
            is_first: true,
        }
    }

    fn flags(&self) -> u8 {
        let at = self.table.layout.flags;
        at.and_then(|at| self.table.bytes.get(self.at.checked_add(at)?))
            .copied()
            .unwrap_or(0)
    }

    /// The nth of the numbers of four bytes that follow its start.
    fn number(&self, nth: usize) -> u32 {
        let start = self.table.entry_bytes() / 2;
        let at = self.at.saturating_add(start + (nth - 1) * 4);
        u32_at(&self.table.bytes, at)
    }
}
