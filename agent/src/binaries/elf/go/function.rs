//! One function of the table.

use super::{stack_sizes::StackSizes, table::GoTable};
use crate::binaries::elf::{
    functions::{Binding, Function},
    numbers::u32_at,
};

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

/// A function in Go or in Go's assembler.
#[derive(Clone, Copy, Debug)]
pub struct GoFunction<'a> {
    table: &'a GoTable,
    /// First address before the load bias is added.
    pub start: u64,
    /// Start of the next function, or the end of the last one.
    pub end: u64,
    /// Offset of its entry (`_func`) in the table.
    at: usize,
}

impl GoTable {
    /// The functions, sorted by address unless the table is malformed.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction<'_>> {
        (0..self.count).filter_map(|index| {
            let (start, at) = self.item(index);
            let (end, _) = self.item(index + 1);
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

    /// The function as a symbol, whose name is one of [`GoTable::names`].
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

    /// Whether it is the outermost frame of a stack.
    #[must_use]
    pub fn is_outermost(&self) -> bool {
        self.flags() & 1 != 0
    }

    /// Whether it sets the stack pointer, which [`Self::stack_sizes`] do not reflect.
    #[must_use]
    pub fn sets_stack_pointer(&self) -> bool {
        self.flags() & 2 != 0
    }

    /// Whether it is written in assembler; [`None`] where the table has no such flag.
    #[must_use]
    pub fn is_assembly(&self) -> Option<bool> {
        let has_flag = self.table.format.has_distances;
        has_flag.then(|| self.flags() & 4 != 0)
    }

    /// The sizes of its stack frame, sorted by address and without gaps; none where they are not
    /// known.
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
        let at = self.table.format.flags;
        at.and_then(|at| self.table.bytes.get(self.at.checked_add(at)?))
            .copied()
            .unwrap_or(0)
    }

    /// The nth 32-bit field behind its start.
    fn number(&self, nth: usize) -> u32 {
        let start = self.table.item_bytes() / 2;
        let at = self.at.saturating_add(start + (nth - 1) * 4);
        u32_at(&self.table.bytes, at)
    }
}
