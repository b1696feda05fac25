//! Allocations that a program announces itself: `otel_memory:alloc(user, size, weighted_bytes)`, a USDT probe.
//!
//! The allocator samples, and says for how many bytes each sample stands
//! (<https://github.com/open-telemetry/opentelemetry-ebpf-profiler/tree/main/design-docs/00003-memory-profiling>):
//! nothing runs at the other allocations. Where the arguments are the kernel says, by the number with which the probe
//! was attached. The process can claim what it wants, of itself: samples that are too many are thinned out, and what is
//! left counts for them.
//!
//! An allocator with a sampler may be one that a library has for itself, whose allocations no probe of a function sees;
//! or the sampler is before or behind a function with a probe. What that has recorded does not count again: see
//! [`was_asked_for`].

#![expect(
    clippy::needless_pass_by_value,
    reason = "the contexts are what the macro gives to programs"
)]

use agent_common::{
    counter::Counter,
    limits::{
        ANNOUNCED_ALLOCATION, ANNOUNCING_THREADS, MAX_ALLOCATION_BYTES, MAX_ALLOCATION_DOUBLINGS,
    },
    memory::{UserAddr, UserMemory as _},
    probe_argument::ProbeArgument,
};
use aya_ebpf::{
    EbpfContext as _,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_attach_cookie, bpf_get_prandom_u32},
    },
    macros::uprobe,
    programs::ProbeContext,
};

use super::allocations::{ANNOUNCED, adapt, recover};
use crate::{
    current,
    maps::{
        ALLOCATION_SAMPLER, ALLOCATION_SETTINGS, ALLOCATORS, DUE_ALLOCATION, LAST_ALLOCATIONS,
        SAMPLED_ALLOCATIONS, count,
    },
    memory::ProbedMemory,
    registers,
    values::LastAllocation,
};

/// Bytes that a sampler adds to an allocation at most, to know it again.
const MOST_ADDED: u64 = 128;

/// Bytes of stack between where a sampler asks for an allocation and where it announces it, at most.
const NEAR: u64 = 1 << 10;

/// Attached to each `otel_memory:alloc`.
#[uprobe]
pub(crate) fn on_announced_allocation(context: ProbeContext) -> u32 {
    count(Counter::ALLOCATIONS);
    let Some(settings) = ALLOCATION_SETTINGS.get(0) else {
        return 0;
    };
    if settings.is_recording == 0 {
        return 0;
    }
    let Some(thinned) = thinned() else {
        return 0;
    };
    if !current::begin_probe() {
        count(Counter::LOST_ALLOCATIONS);
        return 0;
    }
    // SAFETY: the context of this program.
    let arguments = unsafe { bpf_get_attach_cookie(context.as_ptr()) };
    let left_out = match set_due(arguments, thinned) {
        Ok(()) => {
            // SAFETY: nothing here has to be dropped.
            unsafe { ALLOCATION_SAMPLER.tail_call(&context, 0) };
            Some(Counter::LOST_ALLOCATIONS)
        }
        Err(LeftOut::Impossible) => Some(Counter::REFUSED_ANNOUNCEMENTS),
        Err(LeftOut::Recorded) => None,
    };
    current::end_probe();
    if let Some(counter) = left_out {
        count(counter);
    }
    0
}

/// As the binary logarithm, for how many samples this one stands; [`None`] where another one does.
#[inline(always)]
fn thinned() -> Option<u32> {
    let sampled = SAMPLED_ALLOCATIONS.get_ptr_mut(ANNOUNCED)?;
    // SAFETY: the value lives as long as the map and belongs to this processor; a thread that takes the processor from
    // this one may write it, which costs a sample or adds one.
    let sampled = unsafe { &mut *sampled };
    recover(sampled);
    let doublings = sampled.doublings.min(MAX_ALLOCATION_DOUBLINGS);
    // SAFETY: the helper takes no arguments.
    let drawn = unsafe { bpf_get_prandom_u32() };
    if drawn & ((1 << doublings) - 1) != 0 {
        return None;
    }
    adapt(sampled);
    Some(doublings)
}

/// Why an allocation that was announced is not sampled.
enum LeftOut {
    /// It cannot be, or cannot be read.
    Impossible,
    /// The probe of the function that was asked for it records it as likely as others.
    Recorded,
}

/// Has the allocation sampled that is announced.
#[inline(always)]
fn set_due(arguments: u64, thinned: u32) -> Result<(), LeftOut> {
    let due = DUE_ALLOCATION.get_ptr_mut(0).ok_or(LeftOut::Impossible)?;
    // SAFETY: the value lives as long as the map; others write it only between `begin_probe` and `end_probe`.
    let due = unsafe { &mut *due };
    if !registers::read(&mut due.registers) {
        return Err(LeftOut::Impossible);
    }
    let (size, weight) = ProbeArgument::unpack(arguments);
    let read = |argument: ProbeArgument| argument.read(&due.registers, &ProbedMemory);
    let bytes = read(size).ok_or(LeftOut::Impossible)?;
    let weighted = read(weight).ok_or(LeftOut::Impossible)?;
    if weighted == 0 || weighted > MAX_ALLOCATION_BYTES || bytes > MAX_ALLOCATION_BYTES {
        return Err(LeftOut::Impossible);
    }
    if was_asked_for(bytes, due.registers.stack_pointer()) {
        return Err(LeftOut::Recorded);
    }
    let weighted = weighted << thinned;
    let allocations = quotient(weighted, bytes);
    due.bytes = weighted;
    due.periods =
        allocations.clamp(1, (ANNOUNCED_ALLOCATION - 1).into()) | u64::from(ANNOUNCED_ALLOCATION);
    Ok(())
}

/// For how many allocations one of `bytes` stands that has the weight of so many bytes: where that is no whole number,
/// as often the one above it as it is nearer. Of none, it is one.
#[inline(always)]
fn quotient(weighted: u64, bytes: u64) -> u64 {
    if bytes == 0 {
        return 1;
    }
    // SAFETY: the helper takes no arguments.
    let drawn = u64::from(unsafe { bpf_get_prandom_u32() }) % bytes;
    let more = u64::from(drawn < weighted % bytes);
    (weighted / bytes).wrapping_add(more)
}

/// Whether the thread has just asked a function with a probe for the allocation that it announces.
///
/// The code that announces it may have called that function: for as many bytes, or a header more, from about the same
/// place of the stack. Or the function has called it, and has not returned: then it says what was asked for, or what an
/// allocation of that size has.
#[inline(always)]
fn was_asked_for(bytes: u64, stack_pointer: u64) -> bool {
    let ids = bpf_get_current_pid_tgid();
    let thread = ids as u32;
    let Some(last) = LAST_ALLOCATIONS.get_ptr_mut(thread & (ANNOUNCING_THREADS - 1)) else {
        return false;
    };
    // SAFETY: the value lives as long as the map; see where it is written.
    let last = unsafe { &mut *last };
    if last.thread != u64::from(thread) {
        return false;
    }
    last.thread = 0;
    if stack_pointer < last.stack_pointer {
        let more = bytes.wrapping_sub(last.bytes);
        if bytes >= last.bytes && more <= last.bytes / 4 + MOST_ADDED && is_in_call(last) {
            return true;
        }
    }
    // SAFETY: values of the map stay readable while the program runs.
    let allocators = unsafe { ALLOCATORS.get((ids >> 32) as u32) };
    allocators.is_some_and(|it| it.announces(last.caller))
        && last.bytes >= bytes
        && last.bytes.wrapping_sub(bytes) <= MOST_ADDED
        && last.stack_pointer.abs_diff(stack_pointer) <= NEAR
}

/// Whether the function has not returned, as far as the stack shows: on ARM it does not.
#[inline(always)]
fn is_in_call(last: &LastAllocation) -> bool {
    let at = UserAddr(last.stack_pointer);
    cfg!(bpf_target_arch = "aarch64") || ProbedMemory.word(at).is_ok_and(|word| word == last.caller)
}
