//! Unwind tables: which rule applies at which address.
//!
//! The agent compiles the DWARF call-frame information of a file to a table; the BPF programs look
//! rules up in it. A table consists of 32-bit words:
//!
//! ```text
//!  word 0 …            pages + 1 …                                    end
//!  ├ start of page 0 ┬ … ┬ end of last page ┬ rows of page 0 ┬ rows of page 1 ┬ … ┤
//! ```
//!
//! A *page* is [`PAGE_BYTES`] of addresses, aligned to that. The first words are the indices of the
//! words at which the rows of each page start, and where those of the last one end. A row has the
//! lower 16 bits of an address in its upper half and the index of a rule in its lower one; the rule
//! holds from there to the next row. Rows of a page are sorted, and a page that has any has one for
//! its first address.

use crate::volatile::Volatile;

/// Addresses that share a page of a table, in bytes.
pub const PAGE_BYTES: u64 = 1 << 16;

/// Words that are stored side by side: the value of the maps that hold tables.
pub const BLOCK_WORDS: usize = 64;

/// A piece of a table.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block(pub [u32; BLOCK_WORDS]);

impl Block {
    /// A table in pieces, of which the last is filled up with zeros.
    #[must_use]
    pub fn all_of(words: &[u32]) -> impl ExactSizeIterator<Item = Self> {
        words.chunks(BLOCK_WORDS).map(|words| {
            let mut block = Self([0; BLOCK_WORDS]);
            block.0[..words.len()].copy_from_slice(words);
            block
        })
    }
}

/// A row of a table: the rule `rule` holds from `low`, the lower half of an address, on.
#[inline(always)]
#[must_use]
pub const fn row(low: u16, rule: u16) -> u32 {
    (low as u32) << 16 | rule as u32
}

/// Where the words of a table are kept.
pub trait TableWords {
    /// The word at `index`, 0 where there is none.
    fn word(&self, index: u32) -> u32;
}

/// Halvings that leave one row of a page.
const STEPS: u32 = PAGE_BYTES.ilog2() + 1;

/// How far the row of an address is at most, as a rule, from where it would be if the rows of its
/// page were evenly spread.
const NEAR: u32 = 32;

/// A search for the rule that holds at an address.
#[repr(C)]
#[derive(Debug)]
pub struct RuleSearch {
    low: Volatile<u32>,
    high: Volatile<u32>,
}

impl RuleSearch {
    /// A search that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            low: Volatile::new(0),
            high: Volatile::new(0),
        }
    }

    /// The index of the rule that holds `distance` bytes after the first address of a table with so
    /// many pages; 0 where none does.
    #[inline(always)]
    pub fn find<W: TableWords + ?Sized>(&mut self, words: &W, pages: u32, distance: u64) -> u16 {
        let page = distance / PAGE_BYTES;
        if page >= u64::from(pages) {
            return 0;
        }
        self.low.set(words.word(page as u32));
        self.high.set(words.word(page as u32 + 1));
        let last = row(distance as u16, u16::MAX);
        self.narrow(words, distance, last);
        let mut step = 0;
        while step < STEPS {
            let (low, high) = (self.low.get(), self.high.get());
            let middle = low.wrapping_add(high.wrapping_sub(low) / 2);
            if middle == low {
                break;
            }
            if words.word(middle) <= last {
                self.low.set(middle);
            } else {
                self.high.set(middle);
            }
            step += 1;
        }
        let low = self.low.get();
        let found = words.word(low);
        if low < self.high.get() && found <= last {
            found as u16
        } else {
            0
        }
    }

    /// Narrows the search to the rows near the expected one. Those lie in a few lines of the
    /// processor's caches, while halving from the whole page on visits as many lines as steps.
    #[inline(always)]
    fn narrow<W: TableWords + ?Sized>(&mut self, words: &W, distance: u64, last: u32) {
        let (low, high) = (self.low.get(), self.high.get());
        let rows = high.wrapping_sub(low);
        let before = u64::from(rows).wrapping_mul(distance % PAGE_BYTES) / PAGE_BYTES;
        let expected = low.wrapping_add(before as u32);
        let start = expected.wrapping_sub(NEAR);
        if before > u64::from(NEAR) {
            if words.word(start) > last {
                self.high.set(start);
                return;
            }
            self.low.set(start);
        }
        let end = expected.wrapping_add(NEAR);
        if end < high {
            if words.word(end) <= last {
                self.low.set(end);
            } else {
                self.high.set(end);
            }
        }
    }
}

impl Default for RuleSearch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "user")]
// SAFETY: integers, valid for any bytes.
unsafe impl aya::Pod for Block {}

const _: () = assert!(size_of::<Block>() == 256);

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{PAGE_BYTES, RuleSearch, TableWords, row};

    impl TableWords for [u32] {
        fn word(&self, index: u32) -> u32 {
            self.get(index as usize).copied().unwrap_or(0)
        }
    }

    #[test]
    fn a_rule_holds_up_to_the_next_row() {
        // Three pages, the second without rows.
        let table = [
            4,
            7,
            7,
            9,
            row(0, 1),
            row(0x10, 2),
            row(0xfff0, 3),
            row(0, 3),
            row(0x8000, 4),
        ];
        let find = |distance| RuleSearch::new().find(table.as_slice(), 3, distance);
        let rules = [
            (0, 1),
            (0xf, 1),
            (0x10, 2),
            (0x11, 2),
            (0xffef, 2),
            (0xfff0, 3),
            (0xffff, 3),
            (0x1_0000, 0),
            (0x1_ffff, 0),
            (0x2_0000, 3),
            (0x2_7fff, 3),
            (0x2_8000, 4),
            (0x2_ffff, 4),
            (0x3_0000, 0),
            (u64::MAX, 0),
        ];
        for (distance, rule) in rules {
            assert_eq!(find(distance), rule, "{distance:#x}");
        }
    }

    #[test]
    fn rows_that_are_unevenly_spread_are_found() {
        for seed in 1..200_u32 {
            let count = 1 + seed * 37 % 3000;
            let power = seed % 4 + 1;
            let scale = |nth: u32| u64::from(nth).pow(power) * PAGE_BYTES;
            let mut lows: Vec<u16> = (0..count)
                .map(|nth| (scale(nth) / u64::from(count).pow(power)) as u16)
                .collect();
            lows.dedup();
            let end = 2 + lows.len() as u32;
            let rows = (1..).zip(&lows).map(|(rule, low)| row(*low, rule));
            let table: Vec<u32> = [2, end].into_iter().chain(rows).collect();
            for distance in (0..0x1_0000_u64).step_by(97) {
                let expected = lows.partition_point(|low| u64::from(*low) <= distance) as u16;
                let found = RuleSearch::new().find(table.as_slice(), 1, distance);
                assert_eq!(found, expected, "{seed} {distance:#x}");
            }
        }
    }

    #[test]
    fn any_words_give_some_rule() {
        for seed in 0..1000_u32 {
            let table: [u32; 12] =
                core::array::from_fn(|index| seed.wrapping_mul(2_654_435_761 + index as u32) >> 7);
            for distance in (0..0x5_0000).step_by(0x1234) {
                let _ = RuleSearch::new().find(table.as_slice(), 4, distance);
            }
        }
        assert_eq!(RuleSearch::new().find([].as_slice(), 1, 0), 0);
        assert_eq!(RuleSearch::new().find([9, 3].as_slice(), 1, 0), 0);
    }
}
