//! How the caller of a native frame is found: rules, and the tables that say which rule holds at
//! which address.
//!
//! The user half compiles the DWARF call-frame information of a file to a table; the kernel half
//! looks rules up in it. A table is made of words of 32 bits:
//!
//! ```text
//!  word 0 …            pages + 1 …                                    end
//!  ├ start of page 0 ┬ … ┬ end of last page ┬ rows of page 0 ┬ rows of page 1 ┬ … ┤
//! ```
//!
//! A *page* is [`PAGE_BYTES`] of addresses, aligned to that. The first words say at which word the
//! rows of each page start, and where those of the last one end. A row has the lower 16 bits of
//! an address in its upper half and the index of a rule in its lower one; the rule holds from
//! there to the next row. Rows of a page are sorted, and a page that has any has one for its first
//! address.

use crate::held::Held;

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

/// How the canonical frame address (CFA), the stack pointer of the caller after the return, is
/// known.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CfaRule(pub u8);

impl CfaRule {
    /// Nobody says: frame pointers may help.
    pub const UNKNOWN: Self = Self(0);
    /// There is no caller: the process's entry or the thread's start.
    pub const END: Self = Self(1);
    /// It is [`Rule::register`] + [`Rule::offset`].
    pub const REGISTER: Self = Self(2);
    /// It is the word at [`Rule::register`] + [`Rule::offset`], plus [`Rule::addend`].
    pub const DEREFERENCED: Self = Self(3);
    /// In a procedure linkage table: the stack pointer + [`Rule::addend`], and 8 more from byte
    /// [`Rule::offset`] of the 16-byte entry on.
    pub const LINKAGE: Self = Self(4);
    /// In the code that a signal handler returns to: the stack pointer points at what the kernel
    /// has saved of the interrupted code's registers.
    pub const SIGNAL: Self = Self(5);
    /// It is the word at the stack pointer + [`Rule::offset`] + eight times [`Rule::register`], plus
    /// [`Rule::addend`].
    pub const INDEXED: Self = Self(6);
}

/// Where a register of the caller is saved.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Saved(pub i16);

impl Saved {
    /// In itself.
    pub const UNCHANGED: Self = Self(i16::MIN);
    /// Nobody can tell; only of a register that most callers do without.
    pub const LOST: Self = Self(i16::MIN + 1);

    /// At so many words of eight bytes from the CFA.
    #[inline(always)]
    #[must_use]
    pub const fn at(words: i16) -> Self {
        Self(words)
    }

    /// Its distance in bytes from the CFA.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> i64 {
        self.0 as i64 * 8
    }
}

/// What is to be known of a rule besides where things are.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleFlags(pub u16);

impl RuleFlags {
    /// The code is an interpreter's evaluation loop.
    pub const EVALUATES: Self = Self(1);
    /// The caller's frame pointer is saved at [`Rule::frame_pointer`] from the frame pointer, not
    /// from the CFA, as in functions that realign their stack.
    pub const BY_FRAME_POINTER: Self = Self(2);
    /// The code has gone to another stack: its caller's frame may lie anywhere.
    pub const SWITCHES: Self = Self(4);

    /// Both.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in it.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// An address if the frame lies on the stack of its caller, else 0; the kernel half has no
    /// branch to spare for it.
    #[inline(always)]
    #[must_use]
    pub const fn on_same_stack(self, address: u64) -> u64 {
        let switches = (self.0 & Self::SWITCHES.0) / Self::SWITCHES.0;
        address & (switches as u64).wrapping_sub(1)
    }
}

/// How the caller is found at some addresses. The rule with index 0 is [`Rule::UNKNOWN`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// How the CFA is known.
    pub cfa: CfaRule,
    /// DWARF's number of the register that the CFA is counted from.
    pub register: u8,
    /// What else is to be known.
    pub flags: RuleFlags,
    /// In bytes; see [`CfaRule`].
    pub offset: i32,
    /// In bytes; see [`CfaRule`].
    pub addend: i16,
    /// Where the caller's frame pointer is (`rbp`, `x29`).
    pub frame_pointer: Saved,
    /// Where the caller's `rbx` is, which counts as the base of frames that realign their stack in
    /// the dynamic loader; unused on aarch64.
    pub base: Saved,
    /// Where the return address is; unchanged means in the link register.
    pub return_address: Saved,
}

impl Rule {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        cfa: CfaRule::UNKNOWN,
        register: 0,
        flags: RuleFlags(0),
        offset: 0,
        addend: 0,
        frame_pointer: Saved::UNCHANGED,
        base: Saved::UNCHANGED,
        return_address: Saved::UNCHANGED,
    };
}

/// Where the words of a table are kept.
pub trait Words {
    /// The word at `index`, 0 where there is none.
    fn word(&self, index: u32) -> u32;
}

/// Halvings that leave one row of a page.
const STEPS: u32 = PAGE_BYTES.ilog2() + 1;

/// A search for the rule that holds at an address.
#[repr(C)]
#[derive(Debug)]
pub struct Search {
    low: Held<u32>,
    high: Held<u32>,
}

impl Search {
    /// A search that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            low: Held::new(0),
            high: Held::new(0),
        }
    }

    /// The index of the rule that holds `distance` bytes after the first address of a table with so
    /// many pages; 0 where none does.
    #[inline(always)]
    pub fn find<W: Words + ?Sized>(&mut self, words: &W, pages: u32, distance: u64) -> u16 {
        let page = distance / PAGE_BYTES;
        if page >= u64::from(pages) {
            return 0;
        }
        self.low.set(words.word(page as u32));
        self.high.set(words.word(page as u32 + 1));
        let last = row(distance as u16, u16::MAX);
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
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Rule {}

#[cfg(feature = "user")]
// SAFETY: integers, valid for any bytes.
unsafe impl aya::Pod for Block {}

const _: () = assert!(size_of::<Rule>() == 16);
const _: () = assert!(size_of::<Block>() == 256);

#[cfg(test)]
mod tests {
    use super::{Search, Words, row};

    impl Words for [u32] {
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
        let find = |distance| Search::new().find(table.as_slice(), 3, distance);
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
    fn any_words_give_some_rule() {
        for seed in 0..1000_u32 {
            let table: [u32; 12] =
                core::array::from_fn(|index| seed.wrapping_mul(2_654_435_761 + index as u32) >> 7);
            for distance in (0..0x5_0000).step_by(0x1234) {
                let _ = Search::new().find(table.as_slice(), 4, distance);
            }
        }
        assert_eq!(Search::new().find([].as_slice(), 1, 0), 0);
        assert_eq!(Search::new().find([9, 3].as_slice(), 1, 0), 0);
    }
}
