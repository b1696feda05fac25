//! The probe in interpreters, which runs where an exception leaves a frame.

use std::path::Path;

use agent_common::{
    counter::Counter,
    maps::{RaiseGaps, RaiseWindows, RunGaps},
};
use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray},
    programs::ProgramFd,
};

use super::{Probes, UprobeEvent};
use crate::{
    binaries::probe_points::ProbePoint,
    bpf::{
        counters::CounterMap,
        error::{Error, map_error},
        maps,
    },
};

/// The program.
const ON_TRACEBACK: &str = "on_traceback";

/// The only value: [`RaiseWindows`]. Written by the agent, read by the BPF program.
const RAISE_WINDOWS: &str = "RAISE_WINDOWS";

/// The only value: [`RaiseGaps`], one for each CPU. Written by the BPF program.
const RAISE_GAPS: &str = "RAISE_GAPS";

/// The probe of exceptions, for a thread of its own.
pub struct RaiseProbe {
    program: ProgramFd,
    windows: Array<MapData, RaiseWindows>,
    gaps: PerCpuArray<MapData, RaiseGaps>,
    counters: CounterMap,
}

/// What the probe has counted, so far or in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaiseCounts {
    /// How often it has run.
    pub runs: u64,
    /// How many exceptions it has recorded.
    pub raises: u64,
    /// The time of its runs, in nanoseconds, without that of the breakpoints.
    pub ns: u64,
    /// From one run to the next, where exceptions were not recorded.
    pub idle: RunGaps,
    /// The same where they were.
    pub recorded: RunGaps,
}

impl RaiseCounts {
    /// What has come since another count.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            runs: self.runs.saturating_sub(before.runs),
            raises: self.raises.saturating_sub(before.raises),
            ns: self.ns.saturating_sub(before.ns),
            idle: self.idle.since(before.idle),
            recorded: self.recorded.since(before.recorded),
        }
    }

    /// This and another count.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs.saturating_add(other.runs),
            raises: self.raises.saturating_add(other.raises),
            ns: self.ns.saturating_add(other.ns),
            idle: self.idle.and(other.idle),
            recorded: self.recorded.and(other.recorded),
        }
    }
}

impl RaiseProbe {
    /// Loads the program.
    pub(in crate::bpf) fn load(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            program: Self::check(object)?,
            windows: maps::take(object, RAISE_WINDOWS)?,
            gaps: maps::take(object, RAISE_GAPS)?,
            counters: CounterMap::again(object)?,
        })
    }

    /// Loads the program, and tries it.
    pub(in crate::bpf) fn check(object: &mut Ebpf) -> Result<ProgramFd, Error> {
        let program = super::load(object, ON_TRACEBACK)?;
        super::check(&program)?;
        Ok(program)
    }

    /// Has exceptions recorded that are raised in these windows of time.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn record(&mut self, windows: &RaiseWindows) -> Result<(), Error> {
        let set = self.windows.set(0, windows, 0);
        set.map_err(map_error("write", RAISE_WINDOWS))
    }

    /// What it has counted so far.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the maps cannot be read.
    pub fn counts(&self) -> Result<RaiseCounts, Error> {
        let gaps = self.gaps.get(&0, 0);
        let mut sums = [RunGaps::default(); 2];
        for of_processor in gaps.map_err(map_error("read", RAISE_GAPS))?.iter() {
            sums = std::array::from_fn(|index| sums[index].and(of_processor.gaps[index]));
        }
        let [idle, recorded] = sums;
        Ok(RaiseCounts {
            runs: self.counters.read(Counter::TRACEBACKS)?,
            raises: self.counters.read(Counter::RAISES)?,
            ns: self.counters.read(Counter::PROBE_NS)?,
            idle,
            recorded,
        })
    }
}

impl Probes for RaiseProbe {
    fn attach(
        &self,
        file: &Path,
        point: ProbePoint,
        process: Option<u32>,
    ) -> Result<UprobeEvent, Error> {
        super::attach(&self.program, file, point, process)
    }
}
