//! Moves of memory: pages by which a process has grown have other addresses afterwards.
//!
//! Large allocations grow by `mremap`, which moves pages to where there is room for more of them.

use agent_common::{
    counter::Counter,
    limits::MAX_MOVES_PER_SECOND,
    native::{MREMAP, Registers, SystemCall},
};
use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_ns},
    macros::{fexit, raw_tracepoint},
    programs::{FExitContext, RawTracePointContext},
};

use crate::{
    emit, kernel_memory,
    maps::{MOVES, PROCESSES, count},
    registers,
};

const SECOND_NS: u64 = 1_000_000_000;

/// Attached to the end of the system call `mremap(registers) -> address`.
#[fexit]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_remap(context: FExitContext) -> i32 {
    /// What the function returns is after its only argument, a type that Linux 5.10 does not know.
    const RESULT: usize = 1;
    let call = registers::system_call_with_arguments();
    end_remap(&call, context.arg(RESULT));
    0
}

/// Attached to `sys_exit(registers, result)`, the end of all system calls, on kernels that attach no program to a
/// function.
#[raw_tracepoint]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_system_call(context: RawTracePointContext) -> u32 {
    let saved: u64 = context.arg(0);
    let number = registers::word(saved, Registers::SYSTEM_CALL);
    if kernel_memory::read::<u32>(number) == MREMAP as u32 {
        end_remap(&registers::system_call_in(saved), context.arg(1));
    }
    0
}

/// Sends that a system call of the current process has moved memory to the address `result`, if it has.
#[inline(always)]
fn end_remap(call: &SystemCall, result: u64) {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if PROCESSES.get_ptr(tgid).is_none() || is_error(result) {
        return;
    }
    let Some((from, bytes)) = call.remapped() else {
        return;
    };
    if from == result || bytes == 0 {
        return;
    }
    if !is_within_limit() || !emit::moved_memory(tgid, from, result, bytes) {
        count(Counter::LOST_MOVES);
    }
}

/// Whether a system call returned an error.
#[inline(always)]
fn is_error(result: u64) -> bool {
    /// `MAX_ERRNO`.
    const MAX_ERROR: u64 = 4095;
    result >= MAX_ERROR.wrapping_neg()
}

/// Whether one more move may be recorded on this processor: a process can move memory a million times in a second.
#[inline(always)]
fn is_within_limit() -> bool {
    let Some(moves) = MOVES.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the value lives as long as the map and belongs to this processor; a program that interrupts this one does
    // not use it.
    let moves = unsafe { &mut *moves };
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if now_ns.wrapping_sub(moves.began_ns) >= SECOND_NS {
        moves.began_ns = now_ns;
        moves.count = 0;
    }
    moves.count = moves.count.wrapping_add(1);
    moves.count <= MAX_MOVES_PER_SECOND
}
