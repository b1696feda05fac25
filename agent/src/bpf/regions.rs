//! An allocator of regions of an array.
//!
//! BPF programs may still read a region that was just given back: it is quarantined before it is
//! reused.

use std::time::{Duration, Instant};

/// How long a region is quarantined: far longer than a BPF program runs.
const QUARANTINE: Duration = Duration::from_secs(1);

/// Adjacent entries of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Index of the first entry.
    pub(super) first: u32,
    /// Number of entries.
    pub(super) count: u32,
}

/// The regions of an array.
#[derive(Debug)]
pub(super) struct Regions {
    /// Free regions, sorted by index; no two are adjacent.
    free: Vec<Region>,
    /// Regions that were given back, each with the time of it.
    quarantined: Vec<(Instant, Region)>,
}

impl Regions {
    /// An array of `entries` free entries.
    pub(super) fn new(entries: u32) -> Self {
        Self {
            free: vec![Region {
                first: 0,
                count: entries,
            }],
            quarantined: Vec::new(),
        }
    }

    /// Allocates `count` entries; [`None`] where no free region has so many.
    pub(super) fn take(&mut self, count: u32, now: Instant) -> Option<Region> {
        self.reclaim(now);
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

    /// Quarantines a region that is no longer used.
    pub(super) fn give_back(&mut self, region: Region, now: Instant) {
        if region.count != 0 {
            self.quarantined.push((now, region));
        }
    }

    /// Frees the regions whose quarantine is over.
    fn reclaim(&mut self, now: Instant) {
        let is_over = |(since, _): &(Instant, Region)| now.duration_since(*since) >= QUARANTINE;
        let (over, quarantined) = std::mem::take(&mut self.quarantined)
            .into_iter()
            .partition(is_over);
        self.quarantined = quarantined;
        for (_, region) in over {
            let index = self.free.partition_point(|free| free.first < region.first);
            self.free.insert(index, region);
            self.merge(index);
        }
    }

    /// Merges a free region with adjacent ones.
    fn merge(&mut self, mut index: usize) {
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
    use super::{QUARANTINE, Region, Regions};
    use proptest::prelude::*;
    use std::time::Instant;

    #[test]
    fn a_region_is_quarantined_before_it_is_reused() {
        let now = Instant::now();
        let mut regions = Regions::new(10);
        let first = regions.take(6, now).unwrap();
        assert_eq!(regions.take(6, now), None);
        regions.give_back(first, now);
        assert_eq!(regions.take(6, now + QUARANTINE / 2), None);
        assert_eq!(
            regions.take(10, now + QUARANTINE),
            Some(Region {
                first: 0,
                count: 10
            })
        );
    }

    proptest! {
        #[test]
        fn regions_never_overlap(steps in prop::collection::vec((1_u32..9, any::<bool>()), 1..200)) {
            const ENTRIES: u32 = 64;
            let mut now = Instant::now();
            let mut regions = Regions::new(ENTRIES);
            let mut taken = Vec::<Region>::new();
            for (count, gives_back) in steps {
                now += QUARANTINE / 2;
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
            prop_assert!(regions.take(ENTRIES, now + QUARANTINE * 2).is_some());
        }
    }
}
