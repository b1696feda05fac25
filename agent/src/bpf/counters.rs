//! What the kernel half has counted, summed over the processors.

use std::borrow::Borrow;

use agent_common::counter::Counter;
use aya::maps::{MapData, MapError, PerCpuArray};

/// The counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub(crate) [u64; Counter::COUNT as usize]);

impl Counters {
    pub(super) fn read<T: Borrow<MapData>>(map: &PerCpuArray<T, u64>) -> Result<Self, MapError> {
        let mut counters = Self::default();
        for (index, sum) in (0..).zip(&mut counters.0) {
            *sum = Self::read_one(map, Counter(index))?;
        }
        Ok(counters)
    }

    /// Reads only one of them.
    pub(super) fn read_one<T: Borrow<MapData>>(
        map: &PerCpuArray<T, u64>,
        counter: Counter,
    ) -> Result<u64, MapError> {
        Ok(map.get(&counter.0, 0)?.iter().sum())
    }

    /// The value of one counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter.0 as usize).copied().unwrap_or(0)
    }
}
