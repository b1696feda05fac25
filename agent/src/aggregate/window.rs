//! The counts of a window of time.

use std::collections::BTreeMap;

use agent_common::record::ProfileKind;
use foldhash::HashMap;

use super::key::SampleKey;
use crate::profile::Amount;

/// Most entries of a window; each takes about 110 bytes.
const MAX_KEYS: usize = 1 << 18;

/// The samples of a window of time, counted by [`SampleKey`].
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub(super) counts: HashMap<SampleKey, Amount>,
    pub(super) samples: u64,
    pub(super) malformed_records: u64,
    /// Samples dropped because the window had [`MAX_KEYS`] entries.
    pub(super) lost_samples: u64,
}

impl Window {
    pub(super) fn add(&mut self, key: SampleKey, amount: Amount) {
        self.samples += amount.count;
        if self.counts.len() < MAX_KEYS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += amount;
        } else {
            self.lost_samples += amount.count;
        }
    }

    /// Samples dropped because the window had too many different samples; no part has them.
    #[must_use]
    pub fn lost_samples(&self) -> u64 {
        self.lost_samples
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds the samples of another window.
    pub fn merge(&mut self, other: Self) {
        for (key, amount) in other.counts {
            self.add(key, amount);
        }
        self.lost_samples += other.lost_samples;
        self.malformed_records += other.malformed_records;
    }

    /// Splits the window by process and kind: `part_of` returns the part of a process id. Samples of
    /// processes without a part are dropped, and so are the counts of losses.
    #[must_use]
    pub fn split<P: Ord>(
        self,
        mut part_of: impl FnMut(u32) -> Option<P>,
    ) -> BTreeMap<(P, ProfileKind), Self> {
        let mut parts = BTreeMap::<(P, ProfileKind), Self>::new();
        for (key, amount) in self.counts {
            if let Some(part) = part_of(key.thread.tgid) {
                parts.entry((part, key.kind)).or_default().add(key, amount);
            }
        }
        parts
    }
}
