//! The probes in allocators, which run where a thread asks for memory.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

use agent_common::{
    counter::Counter,
    limits::{ALLOCATION_DISTANCES, ALLOCATION_PERIOD_BYTES},
    maps::AllocationSettings,
};
use aya::{
    Ebpf,
    maps::{Array, MapData, ProgramArray},
    programs::ProgramFd,
};

use tracing::debug;

use super::{Probes, UprobeEvent};
use crate::{
    binaries::probe_points::{ProbePoint, ProbedFunction},
    bpf::{
        counters::CounterMap,
        error::{Error, map_error},
        maps,
    },
};

/// The programs at the entries of functions.
const PROGRAMS: [(ProbedFunction, &str); 6] = [
    (ProbedFunction::Malloc, "on_malloc"),
    (ProbedFunction::Calloc, "on_calloc"),
    (ProbedFunction::Realloc, "on_realloc"),
    (ProbedFunction::AlignedAlloc, "on_aligned_alloc"),
    (ProbedFunction::PosixMemalign, "on_posix_memalign"),
    (ProbedFunction::Mmap, "on_mmap"),
];

/// The program at the places where allocators announce the allocations that they sample.
const ON_ANNOUNCED: &str = "on_announced_allocation";

/// The program that they end with.
const ON_ALLOCATION: &str = "on_allocation";

/// The only value: the number of [`ON_ALLOCATION`]. Written by the agent, read by the BPF programs.
const SAMPLER: &str = "ALLOCATION_SAMPLER";

/// The only value: [`AllocationSettings`]. Written by the agent, read by the BPF programs.
const SETTINGS: &str = "ALLOCATION_SETTINGS";

/// The probes of allocations.
pub struct AllocationProbes {
    programs: HashMap<ProbedFunction, ProgramFd>,
    counters: CounterMap,
    settings: Mutex<Array<MapData, AllocationSettings>>,
    /// The kernel empties it when nobody has it open.
    _sampler: ProgramArray<MapData>,
}

/// What the probes have counted, so far or in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// How often they have run.
    pub calls: u64,
    /// The time for which allocations were recorded, in nanoseconds.
    pub recording_ns: u64,
}

/// The programs, and what they need to end with [`ON_ALLOCATION`].
type Programs = (HashMap<ProbedFunction, ProgramFd>, ProgramArray<MapData>);

impl AllocationProbes {
    /// Loads the programs, and tries one of them.
    pub(in crate::bpf) fn load(object: &mut Ebpf) -> Result<Self, Error> {
        let (programs, sampler) = Self::check(object)?;
        Ok(Self {
            programs,
            counters: CounterMap::again(object)?,
            settings: Mutex::new(maps::take(object, SETTINGS)?),
            _sampler: sampler,
        })
    }

    /// Loads the programs, and tries one of them.
    pub(in crate::bpf) fn check(object: &mut Ebpf) -> Result<Programs, Error> {
        let sampling = super::load(object, ON_ALLOCATION)?;
        let mut sampler: ProgramArray<MapData> = maps::take(object, SAMPLER)?;
        let set = sampler.set(0, &sampling, 0);
        set.map_err(map_error("write", SAMPLER))?;
        let mut programs = HashMap::new();
        for (function, name) in PROGRAMS {
            programs.insert(function, super::load(object, name)?);
        }
        if let Some(program) = programs.get(&ProbedFunction::Malloc) {
            super::check(program)?;
        }
        match super::load(object, ON_ANNOUNCED) {
            Ok(program) => drop(programs.insert(ProbedFunction::Announced, program)),
            // Before Linux 5.15 a program cannot ask where the arguments are.
            Err(error) => {
                debug!("allocations that are announced are not recorded as such: {error}");
            }
        }
        Ok((programs, sampler))
    }

    /// Has allocations recorded, or not any more; at first they are not.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the settings cannot be written.
    pub fn record(&self, is_recording: bool) -> Result<(), Error> {
        let settings = AllocationSettings {
            is_recording: is_recording.into(),
            distances: distances_of(ALLOCATION_PERIOD_BYTES),
        };
        // A system call: no thread panics in it.
        let mut map = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let set = map.set(0, settings, 0);
        set.map_err(map_error("write", SETTINGS))
    }

    /// Whether allocations can be recorded that programs announce.
    #[must_use]
    pub fn take_announced(&self) -> bool {
        self.programs.contains_key(&ProbedFunction::Announced)
    }

    /// What they have counted so far.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the counters cannot be read.
    pub fn counts(&self) -> Result<AllocationCounts, Error> {
        Ok(AllocationCounts {
            calls: self.counters.read(Counter::ALLOCATIONS)?,
            recording_ns: self.counters.read(Counter::ALLOCATION_NS)?,
        })
    }
}

impl Probes for AllocationProbes {
    fn attach(
        &self,
        file: &Path,
        point: ProbePoint,
        process: Option<u32>,
    ) -> Result<UprobeEvent, Error> {
        let program = self.programs.get(&point.function);
        let program = program.ok_or(Error::Incomplete("allocations"))?;
        super::attach(program, file, point, process)
    }
}

/// Distances whose mean is the period: values of the exponential distribution of which each is the middle one of as
/// large a part of it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers far below 2^53, and the distances are positive"
)]
fn distances_of(period: u64) -> [u64; ALLOCATION_DISTANCES] {
    let parts = ALLOCATION_DISTANCES as f64;
    let mut distances = [0; ALLOCATION_DISTANCES];
    for (nth, bytes) in distances.iter_mut().enumerate() {
        let share = (nth as f64 + 0.5) / parts;
        *bytes = ((-(-share).ln_1p() * period as f64) as u64).max(1);
    }
    distances
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "numbers far below 2^53")]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_mean_and_the_spread_of_the_exponential_distribution() {
        let bytes = distances_of(ALLOCATION_PERIOD_BYTES);
        let count = bytes.len() as f64;
        let period = ALLOCATION_PERIOD_BYTES as f64;
        let mean = bytes.iter().map(|it| *it as f64).sum::<f64>() / count;
        assert!((mean / period - 1.0).abs() < 1e-3, "{mean}");
        for multiple in [0.01, 0.1, 0.5, 1.0, 3.0] {
            let below = bytes.iter().filter(|it| (**it as f64) < multiple * period);
            let share = below.count() as f64 / count;
            let expected = 1.0 - f64::exp(-multiple);
            assert!((share - expected).abs() < 1e-3, "{multiple}: {share}");
        }
    }
}
