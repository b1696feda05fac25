//! What was counted in some time.

use std::collections::{BTreeMap, HashMap};

use super::key::SampleKey;

/// Most different samples of a window, of which each takes about 70 bytes.
const MAX_KEYS: usize = 1 << 18;

/// What was counted in some time.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub(super) counts: HashMap<SampleKey, u64>,
    pub(super) samples: u64,
    pub(super) malformed_records: u64,
    /// Samples that found no room.
    pub(super) lost_samples: u64,
}

impl Window {
    pub(super) fn add(&mut self, key: SampleKey, weight: u64) {
        self.samples += weight;
        if self.counts.len() < MAX_KEYS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += weight;
        } else {
            self.lost_samples += weight;
        }
    }

    /// Sampling periods that were counted and that no part has, for want of room.
    #[must_use]
    pub fn lost_samples(&self) -> u64 {
        self.lost_samples
    }

    /// Its parts, by what `part_of` says of the process of a sample; what belongs to no part is
    /// left out. What was lost belongs to no part.
    #[must_use]
    pub fn split<P: Ord>(self, mut part_of: impl FnMut(u32) -> Option<P>) -> BTreeMap<P, Self> {
        let mut parts = BTreeMap::<P, Self>::new();
        for (key, count) in self.counts {
            if let Some(part) = part_of(key.thread.tgid) {
                parts.entry(part).or_default().add(key, count);
            }
        }
        parts
    }
}
