//! The counts of a window of time.

use std::collections::{BTreeMap, HashMap};

use super::key::SampleKey;

/// Most entries of a window; each takes about 70 bytes.
const MAX_KEYS: usize = 1 << 18;

/// The samples of a window of time, counted by [`SampleKey`].
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub(super) counts: HashMap<SampleKey, u64>,
    pub(super) samples: u64,
    pub(super) malformed_records: u64,
    /// Samples dropped because the window had [`MAX_KEYS`] entries.
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

    /// Sampling periods dropped because the window had too many different samples; no part has them.
    #[must_use]
    pub fn lost_samples(&self) -> u64 {
        self.lost_samples
    }

    /// Splits the window by process: `part_of` returns the part of a process id. Samples of processes
    /// without a part are dropped, and so are the counts of losses.
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
