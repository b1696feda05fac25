//! The memory of the interrupted thread, read in its own context.

use agent_common::memory::{Fault, UserAddr, UserMemory};
use aya_ebpf::helpers::generated::bpf_probe_read_user;

/// The memory of the current process. Pages that are not resident are faults: nothing can be
/// waited for in an interrupt.
#[derive(Clone, Copy)]
pub(crate) struct Current;

impl UserMemory for Current {
    #[inline(always)]
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller vouches for `into`; the helper checks `address`.
        let result = unsafe { bpf_probe_read_user(into.cast(), bytes, address.0 as *const _) };
        if result == 0 { Ok(()) } else { Err(Fault) }
    }
}
