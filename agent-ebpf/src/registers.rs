//! Reading the registers of the thread in user space.

use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs,
};

use crate::{maps::KERNEL_LAYOUT, task::Task, values::Registers};

/// Reads the registers; [`false`] when there are none or they belong to a 32-bit program.
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
    result == 0 && registers.are_of_64_bits()
}
