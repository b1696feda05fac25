//! Probes in the profiled programs.
//!
//! A probe is a place of a file that the kernel changes in the memory of programs, to a breakpoint: it has none after
//! the agent has ended, however that was.

mod allocations;
mod event;
mod raises;

pub use self::{
    allocations::{AllocationCounts, AllocationProbes},
    event::UprobeEvent,
    raises::{RaiseCounts, RaiseProbe},
};

use std::{os::fd::AsFd as _, path::Path};

use aya::{
    Ebpf,
    programs::{ProgramFd, UProbe},
};

use super::{
    error::{Error, program_error},
    rights::with_sys_admin,
};
use crate::binaries::probe_points::{ProbePoint, ProbedFunction};

/// Programs that run at places of files.
pub trait Probes {
    /// Attaches the program of a point of a file, for one process or all that map it. May wait for processes that map
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Probe`] when the kernel refuses it.
    fn attach(
        &self,
        file: &Path,
        point: ProbePoint,
        process: Option<u32>,
    ) -> Result<UprobeEvent, Error>;
}

/// Loads a program.
fn load(object: &mut Ebpf, name: &'static str) -> Result<ProgramFd, Error> {
    let program: &mut UProbe = object
        .program_mut(name)
        .ok_or(Error::Incomplete(name))?
        .try_into()
        .map_err(program_error("load", name))?;
    program.load().map_err(program_error("load", name))?;
    let descriptor = program.fd().map_err(program_error("load", name))?;
    descriptor.try_clone().map_err(|source| Error::System {
        call: "open a BPF program once more",
        source,
    })
}

/// Tries a program where no code is that runs: at the header of the agent's own file.
fn check(program: &ProgramFd) -> Result<(), Error> {
    let header = ProbePoint {
        function: ProbedFunction::Malloc,
        offset: 0,
        announced: None,
    };
    attach(program, Path::new("/proc/self/exe"), header, None).map(drop)
}

fn attach(
    program: &ProgramFd,
    file: &Path,
    point: ProbePoint,
    process: Option<u32>,
) -> Result<UprobeEvent, Error> {
    let attached = with_sys_admin(|| UprobeEvent::attach(program.as_fd(), file, point, process));
    attached.map_err(|source| Error::Probe { source })
}
