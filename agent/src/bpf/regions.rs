//! Which parts of an array are in use.
//!
//! The kernel half may still be reading a part that was just given back, so that stays unused for
//! a while.

use std::time::{Duration, Instant};

/// How long a part that was given back stays unused: far longer than a sample takes.
const REST: Duration = Duration::from_secs(1);

/// Entries of an array that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Index of the first.
    pub(super) first: u32,
    /// How many.
    pub(super) count: u32,
}

/// The regions of an array.
#[derive(Debug)]
pub(super) struct Regions {
    /// Unused ones by where they start, none next to another.
    free: Vec<Region>,
    /// Those that were given back, and when.
    resting: Vec<(Instant, Region)>,
}

impl Regions {
    /// All of `entries` entries are unused.
    pub(super) fn new(entries: u32) -> Self {
        Self {
            free: vec![Region {
                first: 0,
                count: entries,
            }],
            resting: Vec::new(),
        }
    }

    /// Takes `count` entries; [`None`] when so many are not to be had side by side.
    pub(super) fn take(&mut self, count: u32, now: Instant) -> Option<Region> {
        self.wake(now);
        let index = self.free.iter().position(|free| free.count >= count)?;
        let free = &mut self.free[index];
        let taken = Region {
            first: free.first,
            count,
        };
        free.first += count;
        free.count -= count;
        if free.count == 0 {
            self.free.remove(index);
        }
        Some(taken)
    }

    /// Gives a region back.
    pub(super) fn give_back(&mut self, region: Region, now: Instant) {
        if region.count != 0 {
            self.resting.push((now, region));
        }
    }

    /// Makes what has rested long enough unused.
    fn wake(&mut self, now: Instant) {
        let is_rested = |(since, _): &(Instant, Region)| now.duration_since(*since) >= REST;
        let (rested, resting) = std::mem::take(&mut self.resting)
            .into_iter()
            .partition(is_rested);
        self.resting = resting;
        for (_, region) in rested {
            let index = self.free.partition_point(|free| free.first < region.first);
            self.free.insert(index, region);
            self.join(index);
        }
    }

    /// Joins an unused region with its neighbours.
    fn join(&mut self, mut index: usize) {
        let ends_at = |region: Region, next: Region| region.first + region.count == next.first;
        if index > 0 && ends_at(self.free[index - 1], self.free[index]) {
            self.free[index - 1].count += self.free[index].count;
            self.free.remove(index);
            index -= 1;
        }
        if index + 1 < self.free.len() && ends_at(self.free[index], self.free[index + 1]) {
            self.free[index].count += self.free[index + 1].count;
            self.free.remove(index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{REST, Region, Regions};
    use proptest::prelude::*;
    use std::time::Instant;

    #[test]
    fn what_was_given_back_rests_first() {
        let now = Instant::now();
        let mut regions = Regions::new(10);
        let first = regions.take(6, now).unwrap();
        assert_eq!(regions.take(6, now), None);
        regions.give_back(first, now);
        assert_eq!(regions.take(6, now + REST / 2), None);
        assert_eq!(
            regions.take(10, now + REST),
            Some(Region {
                first: 0,
                count: 10
            })
        );
    }

    proptest! {
        #[test]
        fn no_entry_is_in_two_regions(steps in prop::collection::vec((1_u32..9, any::<bool>()), 1..200)) {
            const ENTRIES: u32 = 64;
            let mut now = Instant::now();
            let mut regions = Regions::new(ENTRIES);
            let mut taken = Vec::<Region>::new();
            for (count, gives_back) in steps {
                now += REST / 2;
                if gives_back && !taken.is_empty() {
                    regions.give_back(taken.swap_remove(count as usize % taken.len()), now);
                } else if let Some(region) = regions.take(count, now) {
                    prop_assert_eq!(region.count, count);
                    taken.push(region);
                }
                taken.sort_unstable_by_key(|region| region.first);
                for pair in taken.windows(2) {
                    prop_assert!(pair[0].first + pair[0].count <= pair[1].first);
                }
                prop_assert!(taken.last().is_none_or(|last| last.first + last.count <= ENTRIES));
            }
            for region in taken {
                regions.give_back(region, now);
            }
            prop_assert!(regions.take(ENTRIES, now + REST * 2).is_some());
        }
    }
}
