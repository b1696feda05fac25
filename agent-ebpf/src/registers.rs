//! Reading the registers that the thread had in its own code.

use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs,
};

use crate::{maps::KERNEL_LAYOUT, task::Task, values::Registers};

/// Reads them; [`false`] when they are not there or are those of a 32-bit program.
#[inline(always)]
pub(crate) fn read(registers: &mut Registers) -> bool {
    let layout = KERNEL_LAYOUT.load();
    let address = if layout.registers == 0 {
        // SAFETY: the helpers take what they give.
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
