//! Copies of memory: samples the thread that writes to memory which its process has in common with others, most
//! often with the one that it was forked from, so that the kernel makes a copy.
//!
//! Such a page fault has a new page, and leaves the process with as many pages as before: with one in place of another.
//! Where no other process has the page any more, or the memory is shared, there is no new page. What is new memory makes
//! the process grow, also the page in place of that of zeros which all processes read until they write: that one is
//! counted for none.

use agent_common::{
    counter::Counter,
    limits::COPY_PERIOD_BYTES,
    memory::UserAddr,
    python::written_part,
    record::{MemoryType, ProfileKind},
};
use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_get_prandom_u32},
    macros::{perf_event, raw_tracepoint},
    programs::{PerfEventContext, RawTracePointContext},
};

use crate::{
    current,
    maps::{PENDING_FAULTS, PROCESSES, kernel_offset},
    memory::CurrentMemory,
    resident, sample,
    values::PendingFault,
};

/// `__GFP_MOVABLE` and `__GFP_DIRECT_RECLAIM`, of pages that programs need now; of those to which memory moves, from the
/// memory of another processor for example, only the first.
const NEEDED: u64 = 1 << 3 | 1 << 10;

/// Attached to the counter of page faults of every processor, before the fault is resolved.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_possible_copy(context: PerfEventContext) -> u32 {
    if let Some(fault) = pending_fault() {
        // SAFETY: the kernel translates reads of this field of the context.
        fault.address = unsafe { (*context.ctx).addr };
        fault.tid = bpf_get_current_pid_tgid() as u32;
        fault.has_page = 0;
    }
    0
}

/// Attached to `mm_page_alloc(page, order, gfp_flags, migratetype)`.
#[raw_tracepoint]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_page_allocated(context: RawTracePointContext) -> u32 {
    if let Some(fault) = pending_fault()
        && fault.address != 0
        && context.arg::<u64>(2) & NEEDED == NEEDED
    {
        note_page(fault);
    }
    0
}

/// Attached to the counters of minor and of major page faults, which count a fault after it is resolved.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_resolved_copy(context: PerfEventContext) -> u32 {
    // SAFETY: the kernel translates reads of this field of the context.
    let address = unsafe { (*context.ctx).addr };
    if begin_copy(address) != 0 {
        sample::take(&context);
    }
    0
}

/// The page fault that this processor resolves.
#[inline(always)]
fn pending_fault() -> Option<&'static mut PendingFault> {
    let fault = PENDING_FAULTS.get_ptr_mut(0)?;
    // SAFETY: the value lives as long as the map and belongs to this processor. A thread that takes its place in the
    // middle of a fault begins one of its own; what is noted then is of the later one.
    Some(unsafe { &mut *fault })
}

/// Notes that a fault of a process that is profiled has a new page, and what there was before.
#[inline(always)]
fn note_page(fault: &mut PendingFault) {
    let pid_tgid = bpf_get_current_pid_tgid();
    let tgid = (pid_tgid >> 32) as u32;
    if fault.tid == pid_tgid as u32 && PROCESSES.get_ptr(tgid).is_some() {
        fault.counted = resident::counted_here();
        fault.has_page = 1;
    }
}

/// Prepares the samples that are due where the fault at this address has copied a page; returns 0 where there are none.
/// A global function, so that what it needs is not on the stack while frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_copy(address: u64) -> u32 {
    let Some((due, address)) = due_samples(address) else {
        return 0;
    };
    if due == 0 {
        return 0;
    }
    let Some((sampler, _)) = sample::begin(Counter::SAMPLES) else {
        return 0;
    };
    sampler.measures(
        ProfileKind::COPY_ON_WRITE,
        due,
        u64::from(due).wrapping_mul(COPY_PERIOD_BYTES),
    );
    sampler.memory.set(written_to(address));
    1
}

/// How many samples are due of the copy that the fault in the page of this address has made, and the address that was
/// written to.
#[inline(always)]
fn due_samples(address: u64) -> Option<(u32, u64)> {
    let fault = pending_fault()?;
    if fault.tid != bpf_get_current_pid_tgid() as u32 {
        return None;
    }
    let page_bytes = u64::from(kernel_offset(|layout| &layout.resident.page_bytes));
    let written = fault.address;
    // Linux 5.10 on aarch64 counts resolved faults at the beginning of their pages.
    let is_of_fault = address != 0 && (written ^ address) & page_bytes.wrapping_neg() == 0;
    fault.address = 0;
    if !is_of_fault || fault.has_page == 0 {
        return None;
    }
    let counted = resident::counted_here();
    if resident::has_grown(fault.counted, counted) {
        return None;
    }
    // SAFETY: the helper takes no arguments.
    let random = unsafe { bpf_get_prandom_u32() };
    Some((fault.copied.add(page_bytes, random) as u32, written))
}

/// The number of what the sampled thread writes to.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn written_to(address: u64) -> u32 {
    u32::from(part_of(address).unwrap_or(MemoryType::DATA).0)
}

#[inline(always)]
fn part_of(address: u64) -> Option<MemoryType> {
    let sampler = current::sampler()?;
    if sampler.interpreters_head.get() == 0 {
        return None;
    }
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    Some(written_part(&memory, layout, UserAddr(address)))
}
