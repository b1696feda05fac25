//! One function of the table.

use super::{pc_values::PcValues, stack_sizes::StackSizes, table::GoTable};
use crate::binaries::elf::source::Source;

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

/// A function in Go or in Go's assembler.
#[derive(Debug)]
pub struct GoFunction<'a, S> {
    pub(super) table: &'a GoTable<S>,
    /// First address before the load bias is added.
    pub start: u64,
    /// Start of the next function, or the end of the last one.
    pub end: u64,
    /// Offset of its entry (`_func`) in the table.
    pub(super) at: u64,
}

impl<S: Source> GoTable<S> {
    /// The functions, sorted by address unless the table is malformed.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction<'_, S>> {
        (0..self.count).filter_map(|index| self.nth(index))
    }

    /// The function that contains `address`.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<GoFunction<'_, S>> {
        let distance = address.checked_sub(self.text)?;
        // The number of functions that start at the address or before it.
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.item(middle).0 <= distance {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let function = self.nth(low.checked_sub(1)?)?;
        ((function.start..function.end).contains(&address) && function.is_real())
            .then_some(function)
    }

    fn nth(&self, index: u64) -> Option<GoFunction<'_, S>> {
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
    }
}

impl<S: Source> GoFunction<'_, S> {
    /// Its name with its package, such as `runtime.mcall`; empty where it has none.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        self.name_at(self.number(1))
    }

    /// The name at an offset in the names.
    pub(super) fn name_at(&self, offset: u32) -> Vec<u8> {
        let at = self.table.names.saturating_add(offset.into());
        self.table.pages.text(at, MAX_NAME)
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
    pub fn stack_sizes(&self) -> StackSizes<'_, S> {
        StackSizes(self.values(self.number(4)))
    }

    /// The values at an offset in the tables of values, by address.
    pub(super) fn values(&self, offset: u32) -> PcValues<'_, S> {
        let start = match offset {
            0 => u64::MAX,
            offset => self.table.values.saturating_add(offset.into()),
        };
        PcValues::new(self.table, start, self.start..self.end)
    }

    /// Whether its entry is that of a function: the linker lists gaps between functions too.
    fn is_real(&self) -> bool {
        let start = if self.table.format.has_distances {
            u64::from(self.table.pages.u32(self.at))
        } else {
            self.table.pages.u64(self.at)
        };
        self.table.text.checked_add(start) == Some(self.start)
    }

    fn flags(&self) -> u8 {
        let at = self.table.format.flags;
        at.map_or(0, |at| self.byte(at))
    }

    /// The byte at an offset in its entry.
    pub(super) fn byte(&self, offset: u64) -> u8 {
        let [byte] = self.table.pages.array(self.at.saturating_add(offset));
        byte
    }

    /// The nth 32-bit field behind its start.
    pub(super) fn number(&self, nth: u64) -> u32 {
        let start = self.table.item_bytes() / 2;
        let at = self.at.saturating_add(start + (nth - 1) * 4);
        self.table.pages.u32(at)
    }
}
