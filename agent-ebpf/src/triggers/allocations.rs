//! Allocations: samples the threads that ask for memory, by bytes.
//!
//! The probes are at the entries of the functions of the C library, or of the allocator that replaces it. Each only
//! counts down to the next byte that is to be sampled; the few allocations that have such a byte are sampled by one
//! program for all of them, [`on_allocation`].
//!
//! Distances between sampled bytes are drawn from the exponential distribution, so that an allocation of `n` bytes is
//! recorded with the probability `1 - exp(-n / period)`, whatever was allocated before it. A program can ask for memory
//! that it never uses a million times in a second: where there are too many samples, the period is doubled.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the contexts are what the macro gives to programs"
)]

use agent_common::{
    counter::Counter,
    limits::{
        ALLOCATION_DISTANCES as DISTANCES, ALLOCATION_WINDOW_NS, ANNOUNCING_THREADS,
        MAX_ALLOCATION_BYTES, MAX_ALLOCATION_DOUBLINGS, MAX_ALLOCATION_SAMPLES,
        MAX_COUNTED_PROBE_NS,
    },
    maps::AllocationSettings,
    record::ProfileKind,
};
use aya_ebpf::{
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_prandom_u32, bpf_ktime_get_ns},
    },
    macros::uprobe,
    programs::ProbeContext,
};

use crate::{
    current,
    maps::{
        ALLOCATION_SAMPLER, ALLOCATION_SETTINGS, ALLOCATORS, ANNOUNCERS, DUE_ALLOCATION,
        LARGE_ALLOCATIONS, LAST_ALLOCATIONS, SAMPLED_ALLOCATIONS, add, count,
    },
    sample,
    values::{LastAllocation, SampledAllocations},
};

/// The size from which on the C library may map memory for an allocation: half of glibc's default.
const LARGE: u64 = 64 << 10;

/// How many bytes more than an allocation has the C library maps for it at most: two pages, for its own words, and to
/// the end of the last one.
#[cfg(not(bpf_target_arch = "aarch64"))]
const MOST_ADDED: u64 = 8 << 10;
#[cfg(bpf_target_arch = "aarch64")]
const MOST_ADDED: u64 = 128 << 10;

/// `PROT_WRITE`.
const WRITE: u64 = 2;

/// `MAP_ANONYMOUS`.
const ANONYMOUS: u64 = 0x20;

/// Which of the values of `SAMPLED_ALLOCATIONS` is of the functions of allocators, and which of allocations that are
/// announced.
const PROBED: u32 = 0;
pub(super) const ANNOUNCED: u32 = 1;

/// The alignment that every allocation has.
const ALIGNMENT: u64 = 16;

/// Attached to `malloc(bytes)` and others with this argument.
#[uprobe]
pub(crate) fn on_malloc(context: ProbeContext) -> u32 {
    allocated(&context, argument(&context, 0))
}

/// Attached to `calloc(count, bytes)`.
#[uprobe]
pub(crate) fn on_calloc(context: ProbeContext) -> u32 {
    let (elements, bytes) = (argument(&context, 0), argument(&context, 1));
    allocated(&context, elements.wrapping_mul(bytes))
}

/// Attached to `realloc(old, bytes)`, which calls `malloc` where there is no old allocation.
#[uprobe]
pub(crate) fn on_realloc(context: ProbeContext) -> u32 {
    if argument(&context, 0) == 0 {
        return 0;
    }
    allocated(&context, argument(&context, 1))
}

/// Attached to `aligned_alloc(alignment, bytes)`, which calls `malloc` where every allocation is so aligned.
#[uprobe]
pub(crate) fn on_aligned_alloc(context: ProbeContext) -> u32 {
    if argument(&context, 0) <= ALIGNMENT {
        return 0;
    }
    allocated(&context, argument(&context, 1))
}

/// Attached to `posix_memalign(result, alignment, bytes)`; as `aligned_alloc`.
#[uprobe]
pub(crate) fn on_posix_memalign(context: ProbeContext) -> u32 {
    if argument(&context, 1) <= ALIGNMENT {
        return 0;
    }
    allocated(&context, argument(&context, 2))
}

/// Attached to `mmap(address, bytes, protection, flags)`, which the C library calls too for large allocations.
#[uprobe]
pub(crate) fn on_mmap(context: ProbeContext) -> u32 {
    let bytes = argument(&context, 1);
    let is_memory = argument(&context, 2) & WRITE != 0 && argument(&context, 3) & ANONYMOUS != 0;
    if !is_memory || is_of_allocation(bytes) {
        return 0;
    }
    sample_if_due(&context, bytes, true)
}

/// The argument of the function, 0 where it is not known.
#[inline(always)]
fn argument(context: &ProbeContext, nth: usize) -> u64 {
    context.arg(nth).unwrap_or(0)
}

/// Counts an allocation.
#[inline(always)]
fn allocated(context: &ProbeContext, bytes: u64) -> u32 {
    if bytes >= LARGE {
        let _ = LARGE_ALLOCATIONS.insert(bpf_get_current_pid_tgid() as u32, bytes, 0);
    }
    note_last(context, bytes);
    sample_if_due(context, bytes, false)
}

/// Notes what a thread asks for whose process may announce the same.
#[inline(always)]
fn note_last(context: &ProbeContext, bytes: u64) {
    if ANNOUNCERS.get(0).is_none_or(|announcers| *announcers == 0) {
        return;
    }
    let ids = bpf_get_current_pid_tgid();
    // SAFETY: values of the map stay readable while the program runs.
    let allocators = unsafe { ALLOCATORS.get((ids >> 32) as u32) };
    if allocators.is_none_or(|it| it.announcing[0].end == 0) {
        return;
    }
    let thread = ids as u32;
    if let Some(last) = LAST_ALLOCATIONS.get_ptr_mut(thread & (ANNOUNCING_THREADS - 1)) {
        let noted = LastAllocation {
            bytes,
            stack_pointer: stack_pointer(context),
            caller: caller(context),
            thread: thread.into(),
        };
        // SAFETY: the value lives as long as the map. Another thread with the same bits may write it: then an
        // allocation may count twice.
        unsafe { *last = noted };
    }
}

/// Whether the C library maps memory for the large allocation that the thread has just asked for.
#[inline(always)]
fn is_of_allocation(bytes: u64) -> bool {
    let thread = bpf_get_current_pid_tgid() as u32;
    // SAFETY: values of the map stay readable while the program runs.
    let Some(&allocated) = (unsafe { LARGE_ALLOCATIONS.get(thread) }) else {
        return false;
    };
    let is_of = bytes >= allocated && bytes.wrapping_sub(allocated) <= MOST_ADDED;
    if is_of {
        let _ = LARGE_ALLOCATIONS.remove(thread);
    }
    is_of
}

/// Whether the caller is an allocator, which has counted what it asks for; or one that announces it, and maps memory:
/// what it asks functions for is recorded. Leaving out the samples of its calls leaves those of all others as likely as
/// they are.
#[inline(always)]
fn is_of_allocator(context: &ProbeContext, is_mapping: bool) -> bool {
    let process = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: values of the map stay readable while the program runs.
    let Some(allocators) = (unsafe { ALLOCATORS.get(process) }) else {
        return false;
    };
    let caller = caller(context);
    allocators.replacing.contains(caller) || is_mapping && allocators.announces(caller)
}

/// Where the stack of the thread ends.
#[inline(always)]
fn stack_pointer(context: &ProbeContext) -> u64 {
    // SAFETY: the context of a program of this type, from which the verifier allows such reads.
    unsafe {
        #[cfg(not(bpf_target_arch = "aarch64"))]
        {
            (*context.regs).rsp
        }
        #[cfg(bpf_target_arch = "aarch64")]
        {
            (*context.regs).sp
        }
    }
}

/// Where a function returns to whose first instruction is next, 0 where that cannot be read.
#[inline(always)]
fn caller(context: &ProbeContext) -> u64 {
    #[cfg(not(bpf_target_arch = "aarch64"))]
    {
        use aya_ebpf::helpers::generated::bpf_probe_read_user;

        let mut address = 0_u64;
        // SAFETY: `address` has room for what is read; the helper checks where it is read.
        unsafe {
            bpf_probe_read_user(
                (&raw mut address).cast(),
                size_of::<u64>() as u32,
                stack_pointer(context) as *const _,
            );
        }
        address
    }
    #[cfg(bpf_target_arch = "aarch64")]
    {
        // SAFETY: the context of a program of this type; the register with the return address.
        unsafe { (*context.regs).regs[30] }
    }
}

/// Has an allocation sampled that has the next byte to sample. Where it is, this does not return.
#[inline(always)]
fn sample_if_due(context: &ProbeContext, bytes: u64, is_mapping: bool) -> u32 {
    count(Counter::ALLOCATIONS);
    if bytes > MAX_ALLOCATION_BYTES {
        return 0;
    }
    let Some(sampled) = SAMPLED_ALLOCATIONS.get_ptr_mut(PROBED) else {
        return 0;
    };
    // SAFETY: the value lives as long as the map and belongs to this processor; a thread that takes the processor from
    // this one may write it, which costs a sample or adds one.
    let sampled = unsafe { &mut *sampled };
    let left = sampled.left;
    if bytes < left {
        sampled.left = left.wrapping_sub(bytes);
        return 0;
    }
    let Some(settings) = ALLOCATION_SETTINGS.get(0) else {
        return 0;
    };
    if settings.is_recording == 0 {
        sampled.left = 0;
        return 0;
    }
    let periods = 1_u64 << sampled.doublings.min(MAX_ALLOCATION_DOUBLINGS);
    adapt(sampled);
    sampled.left = distance(settings) << sampled.doublings.min(MAX_ALLOCATION_DOUBLINGS);
    // Not before a distance was drawn.
    if left == 0 || is_of_allocator(context, is_mapping) {
        return 0;
    }
    if !current::begin_probe() {
        count(Counter::LOST_ALLOCATIONS);
        return 0;
    }
    if let Some(due) = DUE_ALLOCATION.get_ptr_mut(0) {
        // SAFETY: the value lives as long as the map; others write it only between `begin_probe` and `end_probe`.
        unsafe { ((*due).bytes, (*due).periods) = (bytes, periods) };
        // SAFETY: nothing here has to be dropped.
        unsafe { ALLOCATION_SAMPLER.tail_call(context, 0) };
    }
    current::end_probe();
    count(Counter::LOST_ALLOCATIONS);
    0
}

/// Bytes from a sample to the next, of the usual period.
#[inline(always)]
fn distance(settings: &AllocationSettings) -> u64 {
    // SAFETY: the helper takes no arguments.
    let drawn = unsafe { bpf_get_prandom_u32() } as usize & (DISTANCES - 1);
    settings.distances[drawn]
}

/// Counts a sample, and doubles the period where there are too many, or halves it again.
#[inline(always)]
pub(super) fn adapt(sampled: &mut SampledAllocations) {
    sampled.count = sampled.count.wrapping_add(1);
    if !recover(sampled) && sampled.count >= MAX_ALLOCATION_SAMPLES {
        if sampled.doublings < MAX_ALLOCATION_DOUBLINGS {
            sampled.doublings = sampled.doublings.wrapping_add(1);
        }
        // SAFETY: the helper takes no arguments.
        sampled.began_ns = unsafe { bpf_ktime_get_ns() };
        sampled.count = 0;
    }
}

/// Halves the period for each time since which there were few samples; returns whether such a time is over.
#[inline(always)]
pub(super) fn recover(sampled: &mut SampledAllocations) -> bool {
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let windows = now_ns.wrapping_sub(sampled.began_ns) / ALLOCATION_WINDOW_NS;
    if windows == 0 {
        return false;
    }
    if sampled.count < MAX_ALLOCATION_SAMPLES / 4 {
        let halvings = windows.min(MAX_ALLOCATION_DOUBLINGS.into()) as u32;
        sampled.doublings = sampled.doublings.saturating_sub(halvings);
    }
    sampled.began_ns = now_ns;
    sampled.count = 0;
    true
}

/// Takes the sample of an allocation, in the same thread as the probe that calls it.
#[uprobe]
pub(crate) fn on_allocation(_: ProbeContext) -> u32 {
    // SAFETY: the helper takes no arguments.
    let began_ns = unsafe { bpf_ktime_get_ns() };
    if begin_allocation() != 0 {
        sample::take_allocation();
    }
    current::end_probe();
    // SAFETY: as above.
    let ns = unsafe { bpf_ktime_get_ns() }.wrapping_sub(began_ns);
    add(Counter::ALLOCATION_NS, ns.min(MAX_COUNTED_PROBE_NS));
    0
}

/// Prepares the sample; returns 0 where the process is not profiled.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_allocation() -> u32 {
    u32::from(try_begin_allocation().is_some())
}

#[inline(always)]
fn try_begin_allocation() -> Option<()> {
    let due = DUE_ALLOCATION.get_ptr(0)?;
    // SAFETY: the value lives as long as the map; the probe has written it.
    let (bytes, periods) = unsafe { ((*due).bytes, (*due).periods) };
    let (sampler, _) = sample::begin_in_probe()?;
    sampler.measures(ProfileKind::ALLOCATIONS, periods as u32, bytes);
    Some(())
}
