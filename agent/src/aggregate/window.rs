//! The counts of a window of time.

use std::{collections::BTreeMap, time::Duration};

use agent_common::record::ProfileKind;
use foldhash::HashMap;

use super::{key::SampleKey, scaling::Scaling, window_times::WindowTimes};
use crate::profile::Amount;

/// Most entries of a window; each takes about 120 bytes.
const MAX_KEYS: usize = 1 << 18;

/// The samples of a window of time, counted by [`SampleKey`].
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub(super) counts: HashMap<SampleKey, Amount>,
    pub(super) samples: u64,
    pub(super) malformed_records: u64,
    /// Samples dropped because the window had [`MAX_KEYS`] entries.
    pub(super) lost_samples: u64,
    /// Time in which exceptions were not recorded, in milliseconds.
    pub(super) unrecorded_ms: u64,
    /// Variance of the number of exceptions.
    pub(super) raise_variance: u64,
    /// CPU time that the probes of allocations took, in milliseconds.
    pub(super) probe_ms: u64,
    /// Samples of which it is not known whether their memory was in use.
    pub(super) unwatched_samples: u64,
    /// When samples were taken, if that is wanted.
    pub(super) times: Option<WindowTimes>,
}

impl Window {
    /// A window that keeps the times of its samples.
    pub(super) fn with_times() -> Self {
        Self {
            times: Some(WindowTimes::default()),
            ..Self::default()
        }
    }

    /// Adds samples that were taken at `time_ns`.
    pub(super) fn add_at(&mut self, key: SampleKey, amount: Amount, time_ns: u64) {
        if self.add(key, amount)
            && let Some(times) = &mut self.times
        {
            times.add(key, time_ns, amount.count, amount.value);
        }
    }

    /// Adds samples; returns whether there was room.
    pub(super) fn add(&mut self, key: SampleKey, amount: Amount) -> bool {
        self.samples += amount.count;
        let has_room = self.counts.len() < MAX_KEYS || self.counts.contains_key(&key);
        if has_room {
            *self.counts.entry(key).or_default() += amount;
        } else {
            self.lost_samples += amount.count;
        }
        has_room
    }

    /// Sets when sampling began, in nanoseconds of the monotonic clock, from which times are counted.
    pub fn set_start(&mut self, start_ns: u64) {
        if let Some(times) = &mut self.times {
            times.set_start(start_ns);
        }
    }

    /// Sets for how many milliseconds exceptions were not recorded, and the variance of their number.
    pub fn set_unrecorded(&mut self, unrecorded_ms: u64, raise_variance: u64) {
        self.unrecorded_ms = unrecorded_ms;
        self.raise_variance = raise_variance;
    }

    /// Adds so many exceptions, in the proportions that they have in the samples, where there are any: takes them away
    /// if negative.
    pub fn correct_raises(&mut self, difference: i64) {
        if difference == 0 {
            return;
        }
        let amounts = self.counts.iter_mut();
        let mut raises: Vec<_> = amounts
            .filter(|(key, _)| key.kind == ProfileKind::EXCEPTIONS)
            .collect();
        let sum = raises.iter().map(|(_, amount)| amount.value);
        let sum = sum.fold(0, u64::saturating_add);
        let mut scaling = Scaling::new(sum, sum.saturating_add_signed(difference));
        let mut scaled = HashMap::default();
        for (key, amount) in &mut raises {
            let wanted = scaling.apply(amount.value);
            scaled.insert(**key, Scaling::new(amount.value, wanted));
            amount.value = wanted;
        }
        if let Some(times) = &mut self.times {
            times.scale(|key| scaled.get(key).copied());
        }
    }

    /// Sets the CPU time that the probes of allocations took of the profiled processes.
    pub fn set_probe_cost(&mut self, cost: Duration) {
        self.probe_ms = u64::try_from(cost.as_millis()).unwrap_or(u64::MAX);
    }

    /// Sets of how many samples it is not known whether their memory was in use.
    pub fn set_unwatched(&mut self, samples: u64) {
        self.unwatched_samples = samples;
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

    /// Adds the samples of another window, without their times.
    pub fn merge(&mut self, other: Self) {
        for (key, amount) in other.counts {
            self.add(key, amount);
        }
        self.lost_samples += other.lost_samples;
        self.unrecorded_ms += other.unrecorded_ms;
        self.probe_ms = self.probe_ms.saturating_add(other.probe_ms);
        self.raise_variance = self.raise_variance.saturating_add(other.raise_variance);
        self.malformed_records += other.malformed_records;
    }

    /// Splits the window by process and kind: `part_of` returns the part of a process id. Samples of
    /// processes without a part are dropped, and so are the counts of losses and the times.
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
