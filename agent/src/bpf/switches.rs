//! Tracing of context switches: the program, and what it has to know.

use std::num::NonZeroU32;

use agent_common::{
    limits::{HOST_WAITS, PROGRAM_WAITS},
    maps::{SYSTEM_CALLS, WaitClass},
};
use aya::{
    Ebpf,
    maps::{Array, MapData},
    programs::RawTracePoint,
    util::nr_cpus,
};

use super::{
    error::{Error, map_error, program_error},
    maps,
};

/// Key: thread id. Value: `SwitchedThread`. Written and read by the BPF programs.
pub(super) const SWITCHED_THREADS: &str = "SWITCHED_THREADS";

/// Key: number of a system call. Value: [`WaitClass`]. Written by the agent, read by the BPF program.
const WAIT_CLASSES: &str = "WAIT_CLASSES";

/// The program, and its tracepoint.
const ON_SWITCH: &str = "on_switch";
const SWITCH: &str = "sched_switch";

/// Least context switches that are sampled on a processor in a window, before fewer of them are.
const LEAST_PROCESSOR_WAITS: u32 = 16;

/// What the system calls of 64-bit programs wait for, by number.
pub type WaitClasses = [WaitClass; SYSTEM_CALLS as usize];

/// The program on context switches; it is loaded.
pub(super) struct SwitchTracing {
    is_attached: bool,
}

impl SwitchTracing {
    /// Loads the program; it runs at each context switch of the machine once it is [attached](Self::attach).
    pub(super) fn load(object: &mut Ebpf, classes: &WaitClasses) -> Result<Self, Error> {
        let mut map: Array<MapData, u32> = maps::take(object, WAIT_CLASSES)?;
        for (number, class) in (0..).zip(classes) {
            map.set(number, class.0, 0)
                .map_err(map_error("write", WAIT_CLASSES))?;
        }
        program(object)?
            .load()
            .map_err(program_error("load", ON_SWITCH))?;
        Ok(Self { is_attached: false })
    }

    /// Traces context switches from now on, if they are not traced yet.
    pub(super) fn attach(&mut self, object: &mut Ebpf) -> Result<(), Error> {
        if !self.is_attached {
            program(object)?
                .attach(SWITCH)
                .map_err(program_error("attach", ON_SWITCH))?;
            self.is_attached = true;
        }
        Ok(())
    }

    /// Traces context switches no longer.
    pub(super) fn unload(object: &mut Ebpf) -> Result<(), Error> {
        program(object)?
            .unload()
            .map_err(program_error("unload", ON_SWITCH))
    }

    /// Tries whether the kernel lets context switches be traced; nothing can be loaded afterwards.
    pub(super) fn check(object: &mut Ebpf) -> Result<(), Error> {
        let classes = [WaitClass::OTHER; SYSTEM_CALLS as usize];
        Self::load(object, &classes)?.attach(object)?;
        Self::unload(object)
    }
}

fn program(object: &mut Ebpf) -> Result<&mut RawTracePoint, Error> {
    object
        .program_mut(ON_SWITCH)
        .ok_or(Error::Incomplete(ON_SWITCH))?
        .try_into()
        .map_err(program_error("load", ON_SWITCH))
}

/// Context switches that are sampled on each processor in a window, before fewer of them are.
pub(super) fn waits_of_processor(whole_host: bool) -> u32 {
    let most = if whole_host {
        HOST_WAITS
    } else {
        PROGRAM_WAITS
    };
    let cpus = nr_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok());
    let cpus = cpus.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    (most / cpus).max(LEAST_PROCESSOR_WAITS)
}
