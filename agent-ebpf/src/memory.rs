//! The memory of the current thread, read in its own context.

use agent_common::memory::{Fault, UserAddr, UserMemory};
use aya_ebpf::helpers::generated::bpf_probe_read_user;

use crate::values::{LastFault, Sampler};

/// The memory of the current process. Pages that are not resident are faults, since an interrupt
/// cannot wait. The last one is recorded, so that the agent can load the page.
#[derive(Clone, Copy)]
pub(crate) struct CurrentMemory {
    last_fault: *mut LastFault,
}

impl CurrentMemory {
    /// The memory of the process that is sampled.
    #[inline(always)]
    pub(crate) fn of(sampler: &mut Sampler) -> Self {
        Self {
            last_fault: &raw mut sampler.last_fault,
        }
    }
}

impl UserMemory for CurrentMemory {
    #[inline(always)]
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller vouches for `into`; the helper checks `address`.
        let result = unsafe { bpf_probe_read_user(into.cast(), bytes, address.0 as *const _) };
        if result == 0 {
            return Ok(());
        }
        // SAFETY: a part of this processor's sampler that nothing else refers to meanwhile. No
        // call here: what it would leave undefined is more than older verifiers take.
        unsafe {
            (*self.last_fault).address.set(address.0);
            (*self.last_fault).bytes.set(bytes);
        }
        Err(Fault)
    }

    #[inline(always)]
    fn clear_fault(&self) {
        // SAFETY: as in `copy`.
        unsafe { (*self.last_fault).address.set(0) }
    }

    #[inline(always)]
    unsafe fn try_copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller vouches for `into`; the helper checks `address`.
        match unsafe { bpf_probe_read_user(into.cast(), bytes, address.0 as *const _) } {
            0 => Ok(()),
            _ => Err(Fault),
        }
    }
}

/// The memory of the current process, of which no fault is recorded.
#[derive(Clone, Copy)]
pub(crate) struct ProbedMemory;

impl UserMemory for ProbedMemory {
    #[inline(always)]
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller vouches for `into`; the helper checks `address`.
        match unsafe { bpf_probe_read_user(into.cast(), bytes, address.0 as *const _) } {
            0 => Ok(()),
            _ => Err(Fault),
        }
    }
}
