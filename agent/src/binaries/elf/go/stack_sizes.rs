//! The size of a function's stack frame, by instruction.

use std::ops::Range;

use super::pc_values::PcValues;
use crate::binaries::elf::source::Source;

/// The size of a function's stack frame, without the return address, at some of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSize {
    /// Addresses of the instructions.
    pub range: Range<u64>,
    /// Size in bytes.
    pub bytes: i32,
}

/// See [`GoFunction::stack_sizes`](super::GoFunction::stack_sizes).
#[derive(Debug)]
pub struct StackSizes<'a, S>(pub(super) PcValues<'a, S>);

impl<S: Source> Iterator for StackSizes<'_, S> {
    type Item = StackSize;

    fn next(&mut self) -> Option<StackSize> {
        let found = self.0.next()?;
        Some(StackSize {
            range: found.range,
            bytes: found.value,
        })
    }
}
