//! The size of a function's stack frame, by instruction.

use std::ops::Range;

/// The size of a function's stack frame, without the return address, at some of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSize {
    /// Addresses of the instructions.
    pub range: Range<u64>,
    /// Size in bytes.
    pub bytes: i32,
}

/// See [`GoFunction::stack_sizes`].
#[derive(Clone, Debug)]
pub struct StackSizes<'a> {
    /// Pairs of differences: of the size, then of the address at which it ends.
    pub(super) rest: &'a [u8],
    pub(super) quantum: u32,
    pub(super) position: u64,
    pub(super) end: u64,
    pub(super) bytes: i32,
    pub(super) is_first: bool,
}

impl StackSizes<'_> {
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for nth in 0..5 {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u32::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for StackSizes<'_> {
    type Item = StackSize;

    fn next(&mut self) -> Option<StackSize> {
        if self.position >= self.end {
            return None;
        }
        let value = self.number()?;
        if value == 0 && !self.is_first {
            return None;
        }
        self.is_first = false;
        // The lowest bit is the sign.
        let difference = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        self.bytes = self.bytes.checked_add(difference)?;
        let instructions = self.number().filter(|count| *count > 0)?;
        let start = self.position;
        let length = u64::from(instructions) * u64::from(self.quantum);
        self.position = start.saturating_add(length).min(self.end);
        Some(StackSize {
            range: start..self.position,
            bytes: self.bytes,
        })
    }
}
