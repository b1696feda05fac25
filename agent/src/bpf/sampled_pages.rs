//! The pages of which there are samples, as the BPF programs know them.

use agent_common::maps::PageKey;
use aya::{
    Btf, Ebpf,
    maps::{HashMap, MapData},
    programs::FExit,
};

use super::{
    error::{Error, program_error},
    maps, tracepoints,
};

/// Key: [`PageKey`]. Value: unused. Written by the BPF programs, and by the agent when memory is moved.
const PAGES: &str = "PAGES";

/// The program that records moves of memory, and the function of the kernel at whose end it runs.
const ON_REMAP: &str = "on_remap";
const MREMAP: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_mremap"
} else {
    "__x64_sys_mremap"
};

/// The program that does so elsewhere, at the end of each system call of the machine.
const ON_SYSTEM_CALL: &str = "on_system_call";
const SYS_EXIT: &str = "sys_exit";

/// The pages of which there are samples.
pub struct SampledPages {
    pages: HashMap<MapData, PageKey, u32>,
}

impl SampledPages {
    /// The function of the kernel to which a program is attached.
    pub(super) const FUNCTION: &str = MREMAP;

    /// Takes the map, and has moves of memory recorded: at the end of one function where the kernel attaches programs to
    /// functions (on x86-64, and on aarch64 since Linux 6.4), else of all system calls.
    pub(super) fn load(object: &mut Ebpf, functions: &Btf) -> Result<Self, Error> {
        let pages = maps::take(object, PAGES)?;
        if attach_to_remap(object, functions).is_err() {
            tracepoints::attach(object, ON_SYSTEM_CALL, SYS_EXIT)?;
        }
        Ok(Self { pages })
    }

    /// Gives a page of a process another address.
    pub fn relocate(&mut self, tgid: u32, from: u64, to: u64) {
        // Where there is none any more, another one is at its place already.
        if self.pages.remove(&PageKey::new(tgid, from)).is_ok() {
            let _ = self.pages.insert(PageKey::new(tgid, to), 0, 0);
        }
    }
}

fn attach_to_remap(object: &mut Ebpf, functions: &Btf) -> Result<(), Error> {
    let program: &mut FExit = object
        .program_mut(ON_REMAP)
        .ok_or(Error::Incomplete(ON_REMAP))?
        .try_into()
        .map_err(program_error("load", ON_REMAP))?;
    program
        .load(MREMAP, functions)
        .map_err(program_error("load", ON_REMAP))?;
    program
        .attach()
        .map_err(program_error("attach", ON_REMAP))?;
    Ok(())
}
