//! What differs between processors.

use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_probe_read_kernel};

use crate::maps::THREAD_POINTER_OFFSET;

/// The thread pointer of the current thread: `fsbase` on x86-64. Its address within
/// `task_struct` comes from the kernel's BTF.
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let mut pointer = 0_u64;
    // SAFETY: the helper takes no arguments.
    let task = unsafe { bpf_get_current_task() };
    let address = task.wrapping_add(THREAD_POINTER_OFFSET.load());
    // SAFETY: `pointer` has eight bytes; the helper checks the address.
    unsafe { bpf_probe_read_kernel((&raw mut pointer).cast(), 8, address as *const _) };
    pointer
}
