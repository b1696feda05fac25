//! The memory of the interrupted thread, read in its own context.

use agent_common::{
    held::Held,
    memory::{Fault, UserAddr, UserMemory},
};
use aya_ebpf::helpers::generated::bpf_probe_read_user;

use crate::maps::ABSENT;

/// The memory of the current process. Pages that are not resident are faults: nothing can be
/// waited for in an interrupt. The first one of a sample is noted, for the user half to get it.
#[derive(Clone, Copy)]
pub(crate) struct Current;

impl UserMemory for Current {
    #[inline(always)]
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller vouches for `into`; the helper checks `address`.
        let result = unsafe { bpf_probe_read_user(into.cast(), bytes, address.0 as *const _) };
        if result == 0 {
            return Ok(());
        }
        note_absent(address.0, bytes);
        Err(Fault)
    }
}

/// What could not be read first for the sample in the making.
#[repr(C)]
pub(crate) struct Absent {
    address: Held<u64>,
    bytes: Held<u32>,
    reserved: u32,
}

/// Notes that `bytes` bytes at `address` could not be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn note_absent(address: u64, bytes: u32) -> u32 {
    let Some(absent) = ABSENT.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: the value is this processor's own, and nothing else refers to it.
    let absent = unsafe { &mut *absent };
    if absent.address.get() == 0 {
        absent.address.set(address);
        absent.bytes.set(bytes);
    }
    1
}

/// Address and bytes of what could not be read for this sample, once.
#[inline(always)]
pub(crate) fn take_absent() -> Option<(u64, u32)> {
    let absent = ABSENT.get_ptr_mut(0)?;
    // SAFETY: the value is this processor's own, and nothing else refers to it.
    let absent = unsafe { &mut *absent };
    let address = absent.address.get();
    if address == 0 {
        return None;
    }
    absent.address.set(0);
    Some((address, absent.bytes.get()))
}
