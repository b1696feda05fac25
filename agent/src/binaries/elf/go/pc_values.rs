//! Values that a function has at its instructions, such as lines: pairs of differences, of the value
//! and then of the address at which it ends.

use std::ops::Range;

use super::table::GoTable;
use crate::binaries::elf::source::Source;

/// Bytes that are read at once.
const PIECE: usize = 64;

/// A value, and the addresses of the instructions that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PcValue {
    pub(super) range: Range<u64>,
    pub(super) value: i32,
}

/// The values of a function, sorted by address and without gaps.
#[derive(Debug)]
pub(super) struct PcValues<'a, S> {
    table: &'a GoTable<S>,
    piece: [u8; PIECE],
    /// Bytes of the piece that were read.
    used: usize,
    /// Where the next piece starts.
    next_piece: u64,
    /// The address at which the last value ends.
    position: u64,
    end: u64,
    value: i32,
    is_first: bool,
}

impl<'a, S: Source> PcValues<'a, S> {
    /// The values at an offset in the table, of a function at these addresses.
    pub(super) fn new(table: &'a GoTable<S>, start: u64, function: Range<u64>) -> Self {
        Self {
            table,
            piece: [0; PIECE],
            used: PIECE,
            next_piece: start,
            position: function.start,
            end: function.end,
            value: -1,
            is_first: true,
        }
    }

    /// The value at `address`, if it is among the first `most`.
    pub(super) fn at(mut self, address: u64, most: usize) -> Option<i32> {
        let found = self.by_ref().take(most);
        let mut found = found.skip_while(|it| it.range.end <= address);
        let found = found.next()?;
        found.range.contains(&address).then_some(found.value)
    }

    fn byte(&mut self) -> u8 {
        if self.used == PIECE {
            self.table.pages.fill(self.next_piece, &mut self.piece);
            self.next_piece = self.next_piece.saturating_add(PIECE as u64);
            self.used = 0;
        }
        let byte = self.piece[self.used];
        self.used += 1;
        byte
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for nth in 0..5 {
            let byte = self.byte();
            number |= u32::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<S: Source> Iterator for PcValues<'_, S> {
    type Item = PcValue;

    fn next(&mut self) -> Option<PcValue> {
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
        self.value = self.value.checked_add(difference)?;
        let instructions = self.number().filter(|count| *count > 0)?;
        let start = self.position;
        let length = u64::from(instructions) * u64::from(self.table.quantum);
        self.position = start.saturating_add(length).min(self.end);
        Some(PcValue {
            range: start..self.position,
            value: self.value,
        })
    }
}
