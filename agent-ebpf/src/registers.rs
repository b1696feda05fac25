//! Reading the registers of the thread in user space.

use agent_common::native::Registers;
use aya_ebpf::bindings::{bpf_perf_event_data, task_struct};
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_task_pt_regs,
};

use crate::{kernel_memory::read as read_kernel, maps::kernel_offset, task::Task};

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

/// Reads the registers that the current thread, in the kernel, had in its own code; [`false`] when there
/// are none.
#[inline(always)]
pub(crate) fn read(registers: &mut Registers) -> bool {
    let address = if kernel_offset(|layout| &layout.registers) == 0 {
        // SAFETY: each helper takes the pointer that the other one returns.
        unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()).cast_unsigned() }
    } else {
        in_stack(Task::current())
    };
    copy_saved(address, registers)
}

/// The same for another thread, which the kernel has given.
///
/// # Safety
///
/// The verifier must know `task` as a trusted pointer to a `task_struct`.
#[inline(always)]
pub(crate) unsafe fn read_of(task: *mut task_struct, registers: &mut Registers) -> bool {
    let address = if kernel_offset(|layout| &layout.registers) == 0 {
        // SAFETY: the caller's.
        unsafe { bpf_task_pt_regs(task).cast_unsigned() }
    } else {
        in_stack(Task::at(task as u64))
    };
    copy_saved(address, registers)
}

/// Where the registers are in the thread's stack in the kernel.
#[inline(always)]
fn in_stack(task: Task) -> u64 {
    let registers = kernel_offset(|layout| &layout.registers);
    task.stack().wrapping_add(registers.into())
}

/// The system call that the current thread is in, and whether its program has 64 bits; [`None`] in none.
#[inline(always)]
pub(crate) fn system_call() -> Option<(u64, bool)> {
    /// The first of three words that have both.
    const FIRST: usize = if Registers::MODE < Registers::SYSTEM_CALL {
        Registers::MODE
    } else {
        Registers::SYSTEM_CALL
    };
    let address = if kernel_offset(|layout| &layout.registers) == 0 {
        // SAFETY: each helper takes the pointer that the other one returns.
        unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()).cast_unsigned() }
    } else {
        in_stack(Task::current())
    };
    let words: [u64; 3] = read_kernel(address.wrapping_add(FIRST as u64 * 8));
    let number = words[Registers::SYSTEM_CALL - FIRST] as u32;
    let is_of_64_bits = Registers::is_mode_of_64_bits(words[Registers::MODE - FIRST]);
    // -1 in none.
    (number.cast_signed() >= 0).then_some((number.into(), is_of_64_bits))
}

/// Reads registers that the kernel has saved at an address, which it has given; [`false`] when it cannot.
#[inline(always)]
pub(crate) fn copy_saved(address: u64, registers: &mut Registers) -> bool {
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
