//! Which executable file an address of a process is of.
//!
//! The mappings of a process stand side by side, sorted by their addresses, in one array for all
//! processes; a process has the index and the number of its own.

use crate::volatile::Volatile;

/// The array of mappings.
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
    low: Volatile<u32>,
    high: Volatile<u32>,
}

impl MappingSearch {
    /// A search that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            low: Volatile::new(0),
            high: Volatile::new(0),
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
