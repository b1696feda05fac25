//! Which executable file an address of a process is of.
//!
//! The mappings of a process stand side by side, sorted by their addresses, in one array for all
//! processes; a process knows where its own are.

use crate::held::Held;

/// Executable memory of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// What is to be taken from an address to get the one that the file itself gives it.
    pub bias: u64,
    /// The number of the file; [`Mapping::ANONYMOUS`] without one.
    pub executable: u32,
    /// Index of the file's unwind table.
    pub table: u32,
}

impl Mapping {
    /// Stands for a file where there is none.
    pub const ANONYMOUS: u32 = 0;
}

/// Where the unwind table of an executable file is: the value of the map `TABLES`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// First address of the table, as the file gives it.
    pub base: u64,
    /// Pages of the table.
    pub pages: u32,
    /// Index into the map of maps that hold tables.
    pub map: u32,
    /// The first block of the table in that map.
    pub first_block: u32,
    /// Whether there is one.
    pub state: TableState,
}

/// Whether there is an unwind table.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableState(pub u32);

impl TableState {
    /// Not yet: the user half is told when it is missed.
    pub const ABSENT: Self = Self(0);
    /// The user half has been told. Written by the kernel half.
    pub const WANTED: Self = Self(1);
    /// There is.
    pub const LOADED: Self = Self(2);
    /// The file has none: frame pointers may help.
    pub const NONE: Self = Self(3);
}

/// Where mappings are kept.
pub trait Mappings {
    /// The first address of the mapping at `index`; the greatest where there is none.
    fn start(&self, index: u32) -> u64;
}

/// Halvings that leave one mapping of a process.
const STEPS: u32 = crate::limits::MAX_MAPPINGS.ilog2() + 1;

/// A search for the mapping of an address.
#[repr(C)]
#[derive(Debug)]
pub struct MappingSearch {
    low: Held<u32>,
    high: Held<u32>,
}

impl MappingSearch {
    /// A search that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            low: Held::new(0),
            high: Held::new(0),
        }
    }

    /// The index of the last of the `count` mappings from `first` on that does not start after
    /// `address`; any index when all do.
    #[inline(always)]
    pub fn find<M: Mappings>(&mut self, mappings: &M, first: u32, count: u32, address: u64) -> u32 {
        self.low.set(first);
        self.high.set(first.wrapping_add(count));
        let mut step = 0;
        while step < STEPS {
            let (low, high) = (self.low.get(), self.high.get());
            let middle = low.wrapping_add(high.wrapping_sub(low) / 2);
            if middle == low {
                break;
            }
            if mappings.start(middle) <= address {
                self.low.set(middle);
            } else {
                self.high.set(middle);
            }
            step += 1;
        }
        self.low.get()
    }
}

impl Default for MappingSearch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Mapping {}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Table {}

const _: () = assert!(size_of::<Mapping>() == 32);
const _: () = assert!(size_of::<Table>() == 24);

#[cfg(test)]
mod tests {
    use super::{MappingSearch, Mappings};

    struct Starts<'a>(&'a [u64]);

    impl Mappings for Starts<'_> {
        fn start(&self, index: u32) -> u64 {
            self.0.get(index as usize).copied().unwrap_or(u64::MAX)
        }
    }

    #[test]
    fn the_mapping_below_an_address_is_found() {
        let starts = Starts(&[900, 10, 20, 30, 5]);
        let find = |address| MappingSearch::new().find(&starts, 1, 3, address);
        assert_eq!(find(10), 1);
        assert_eq!(find(19), 1);
        assert_eq!(find(20), 2);
        assert_eq!(find(1000), 3);
        assert_eq!(find(9), 1);
        assert_eq!(MappingSearch::new().find(&starts, 1, 0, 9), 1);
        assert_eq!(MappingSearch::new().find(&starts, 9, 7, 9), 9);
    }
}
