//! The counters of the BPF programs: the map `COUNTERS`.

use agent_common::counter::Counter;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray},
};

use super::{
    error::{Error, map_error},
    maps,
};

/// Key: [`Counter`]. Value: count, one for each CPU. Written by the BPF programs.
const COUNTERS: &str = "COUNTERS";

/// The map of counters.
pub(super) struct CounterMap(PerCpuArray<MapData, u64>);

impl CounterMap {
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        maps::take(object, COUNTERS).map(Self)
    }

    /// The same counters, for another thread; before they are taken.
    pub(super) fn again(object: &Ebpf) -> Result<Self, Error> {
        maps::again(object, COUNTERS).map(Self)
    }

    /// One counter, summed over the CPUs.
    pub(super) fn read(&self, counter: Counter) -> Result<u64, Error> {
        let counts = self.0.get(&counter.0, 0);
        Ok(counts.map_err(map_error("read", COUNTERS))?.iter().sum())
    }

    /// All counters, summed over the CPUs.
    pub(super) fn read_all(&self) -> Result<Counters, Error> {
        let mut counters = Counters::default();
        for (index, sum) in (0..).zip(&mut counters.0) {
            *sum = self.read(Counter(index))?;
        }
        Ok(counters)
    }
}

/// The counters at one time, summed over the CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(pub(crate) [u64; Counter::COUNT as usize]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::COUNT as usize])
    }
}

impl Counters {
    /// The value of one counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter.0 as usize).copied().unwrap_or(0)
    }
}
