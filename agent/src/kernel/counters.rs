//! What the kernel half has counted, summed over the processors.

use std::borrow::Borrow;

use agent_common::counter::Counter;
use aya::maps::{MapData, MapError, PerCpuArray};

/// The counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; Counter::COUNT as usize]);

impl Counters {
    pub(super) fn read<T: Borrow<MapData>>(map: &PerCpuArray<T, u64>) -> Result<Self, MapError> {
        let mut counters = Self::default();
        for (index, sum) in (0..).zip(&mut counters.0) {
            *sum = map.get(&index, 0)?.iter().sum();
        }
        Ok(counters)
    }

    /// The value of one counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter.0 as usize).copied().unwrap_or(0)
    }
}
