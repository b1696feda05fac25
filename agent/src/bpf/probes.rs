//! The probe in interpreters, which runs where an exception leaves a frame.
//!
//! It is an entry of a file that the kernel changes in the memory of programs, to a breakpoint: it has none after the
//! agent has ended, however that was.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use agent_common::{counter::Counter, maps::RaiseWindows};
use aya::{
    Ebpf,
    maps::{Array, MapData},
    programs::UProbe,
};

use super::{
    counters::CounterMap,
    error::{Error, map_error, program_error},
    maps,
    rights::with_sys_admin,
    uprobe_event::UprobeEvent,
};

/// The program.
const ON_TRACEBACK: &str = "on_traceback";

/// The only value: [`RaiseWindows`]. Written by the agent, read by the BPF program.
const RAISE_WINDOWS: &str = "RAISE_WINDOWS";

/// The probe of exceptions, for a thread of its own.
pub struct RaiseProbe {
    program: OwnedFd,
    windows: Array<MapData, RaiseWindows>,
    counters: CounterMap,
}

/// What the probe has counted, so far or in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// How often it has run.
    pub runs: u64,
    /// How many exceptions it has recorded.
    pub raises: u64,
    /// The time of its runs, in nanoseconds, without that of the breakpoints.
    pub ns: u64,
}

impl ProbeCounts {
    /// What has come since another count.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            runs: self.runs.saturating_sub(before.runs),
            raises: self.raises.saturating_sub(before.raises),
            ns: self.ns.saturating_sub(before.ns),
        }
    }
}

impl RaiseProbe {
    /// Loads the program.
    pub(super) fn load(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            program: Self::check(object)?,
            windows: maps::take(object, RAISE_WINDOWS)?,
            counters: CounterMap::again(object)?,
        })
    }

    /// Loads the program, and tries it where it changes no code: at the header of the agent's own file.
    pub(super) fn check(object: &mut Ebpf) -> Result<OwnedFd, Error> {
        let program = load(object)?;
        attach(&program, Path::new("/proc/self/exe"), 0, None)?;
        Ok(program)
    }

    /// Attaches it `offset` bytes into a file, for one process or all that map the file. May wait for processes that
    /// map it.
    ///
    /// # Errors
    ///
    /// [`Error::Probe`] when the kernel refuses it.
    pub fn attach(
        &mut self,
        file: &Path,
        offset: u64,
        process: Option<u32>,
    ) -> Result<UprobeEvent, Error> {
        attach(&self.program, file, offset, process)
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
    /// [`Error::Map`] when the counters cannot be read.
    pub fn counts(&self) -> Result<ProbeCounts, Error> {
        Ok(ProbeCounts {
            runs: self.counters.read(Counter::TRACEBACKS)?,
            raises: self.counters.read(Counter::RAISES)?,
            ns: self.counters.read(Counter::PROBE_NS)?,
        })
    }
}

/// Loads the program.
fn load(object: &mut Ebpf) -> Result<OwnedFd, Error> {
    let program: &mut UProbe = object
        .program_mut(ON_TRACEBACK)
        .ok_or(Error::Incomplete(ON_TRACEBACK))?
        .try_into()
        .map_err(program_error("load", ON_TRACEBACK))?;
    program
        .load()
        .map_err(program_error("load", ON_TRACEBACK))?;
    let descriptor = program.fd().map_err(program_error("load", ON_TRACEBACK))?;
    let descriptor = descriptor.as_fd().try_clone_to_owned();
    descriptor.map_err(|source| Error::System {
        call: "open a BPF program once more",
        source,
    })
}

fn attach(
    program: &OwnedFd,
    file: &Path,
    offset: u64,
    process: Option<u32>,
) -> Result<UprobeEvent, Error> {
    let attached = with_sys_admin(|| UprobeEvent::attach(program.as_fd(), file, offset, process));
    attached.map_err(|source| Error::Probe { source })
}
