//! Reading the registers of the thread in user space.

use aya_ebpf::bindings::bpf_perf_event_data;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs,
};

use crate::{maps::KERNEL_LAYOUT, task::Task, values::Registers};

/// The registers of a thread that was interrupted in its own code.
///
/// Only the program itself may read its context, and only at constant offsets.
#[inline(always)]
pub(crate) fn copy_interrupted(context: *const bpf_perf_event_data, into: &mut Registers) -> bool {
    // SAFETY: the context of a program of this type, from which the verifier allows such reads.
    let from = unsafe { &raw const (*context).regs }.cast::<u64>();
    // SAFETY: as above, the word is one of the structure.
    if !Registers::is_user_mode(unsafe { from.add(Registers::MODE).read_volatile() }) {
        return false;
    }
    macro_rules! copy {
        ($($nth:literal)*) => {
            $(
                // SAFETY: as above.
                into.words[$nth] = unsafe { from.add($nth).read_volatile() };
            )*
        };
    }
    #[cfg(not(bpf_target_arch = "aarch64"))]
    copy!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 16 17 19);
    #[cfg(bpf_target_arch = "aarch64")]
    copy!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33);
    true
}

/// Reads the registers that a thread in the kernel had in its own code; [`false`] when there are none.
#[inline(always)]
pub(crate) fn read(registers: &mut Registers) -> bool {
    let layout = KERNEL_LAYOUT.load();
    let address = if layout.registers == 0 {
        // SAFETY: each helper takes the pointer that the other one returns.
        unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()).cast_unsigned() }
    } else {
        Task::current()
            .stack()
            .wrapping_add(layout.registers.into())
    };
    // SAFETY: `registers` has room for what is read; the helper checks the address.
    let result = unsafe {
        bpf_probe_read_kernel(
            (&raw mut *registers).cast(),
            size_of::<Registers>() as u32,
            address as *const _,
        )
    };
    result == 0
}
