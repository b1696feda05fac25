//! Reading the registers of the thread in user space.

use agent_common::native::{Registers, SystemCall};
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
    copy_saved(address(), registers)
}

/// Where the registers are that the current thread, in the kernel, had in its own code.
#[inline(always)]
fn address() -> u64 {
    if kernel_offset(|layout| &layout.registers) == 0 {
        // SAFETY: each helper takes the pointer that the other one returns.
        unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()).cast_unsigned() }
    } else {
        in_stack(Task::current())
    }
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

/// The number of the system call that the current thread is in, and whether its program has 64 bits; [`None`] in none.
#[inline(always)]
pub(crate) fn system_call() -> Option<(u64, bool)> {
    let call = SystemCall {
        arguments: Default::default(),
        state: read_kernel(word(address(), SystemCall::FIRST_STATE)),
    };
    Some((call.number()?, call.is_of_64_bits()))
}

/// The system call that the current thread is in, with its arguments.
#[inline(always)]
pub(crate) fn system_call_with_arguments() -> SystemCall {
    system_call_in(address())
}

/// The same in registers that the kernel has saved at an address, which it has given; call 0 where they cannot be read.
#[inline(always)]
pub(crate) fn system_call_in(registers: u64) -> SystemCall {
    SystemCall {
        arguments: read_kernel(word(registers, SystemCall::FIRST_ARGUMENT)),
        state: read_kernel(word(registers, SystemCall::FIRST_STATE)),
    }
}

/// The address of a word of registers.
#[inline(always)]
pub(crate) fn word(registers: u64, index: usize) -> u64 {
    registers.wrapping_add(index as u64 * 8)
}

/// Reads registers that the kernel has saved at an address, which it has given; [`false`] when it cannot.
#[inline(always)]
fn copy_saved(address: u64, registers: &mut Registers) -> bool {
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
