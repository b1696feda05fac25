//! Growth of resident memory: samples the thread whose page fault made its process grow.

use agent_common::{
    counter::Counter,
    limits::GROWTH_PERIOD_BYTES,
    maps::PageKey,
    record::{IS_HUGE, ProfileKind, pages_of_huge},
};
use aya_ebpf::{helpers::bpf_get_current_pid_tgid, macros::perf_event, programs::PerfEventContext};

use crate::{
    emit,
    maps::{PAGES, WITH_PAGES, kernel_offset},
    resident, sample,
};

/// Attached to the counter of page faults of every processor, before the fault is resolved.
#[perf_event]
pub(crate) fn on_fault(_: PerfEventContext) -> u32 {
    resident::before_fault();
    0
}

/// Attached to the counters of minor and of major page faults, which count a fault after it is resolved.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_resolved_fault(context: PerfEventContext) -> u32 {
    // SAFETY: the kernel translates reads of this field of the context.
    let address = unsafe { (*context.ctx).addr };
    if begin_growth(address) != 0 {
        sample::take(&context);
    }
    0
}

/// Prepares the samples that are due of the current thread, for the fault at an address; returns 0 where there are none.
/// A global function, so that what it needs is not on the stack while frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_growth(address: u64) -> u32 {
    let due = resident::after_fault();
    let page = page_at(address, due.is_huge());
    if WITH_PAGES.load() != 0 && due.has_grown() {
        end_page(page);
        let huge = page_at(address, true);
        if page == huge & !IS_HUGE {
            end_page(huge);
        }
    }
    if due.samples() == 0 {
        return 0;
    }
    let Some((sampler, _)) = sample::begin(Counter::SAMPLES) else {
        return 0;
    };
    let bytes = u64::from(due.samples()).wrapping_mul(GROWTH_PERIOD_BYTES);
    sampler.measures(ProfileKind::GROWTH, due.samples(), bytes);
    sampler.memory.set(due.memory().0.into());
    sampler.new_page.set(page);
    if WITH_PAGES.load() != 0 {
        // Where there is no room it is not known when the page is gone and another one is at its address.
        let _ = PAGES.insert(key_of(page), 0, 0);
    }
    1
}

/// The page with an address, as records have it.
#[inline(always)]
fn page_at(address: u64, is_huge: bool) -> u64 {
    let bytes = u64::from(kernel_offset(|layout| &layout.resident.page_bytes));
    if is_huge {
        let bytes = bytes.wrapping_mul(pages_of_huge(bytes));
        address & !bytes.wrapping_sub(1) | IS_HUGE
    } else {
        address & !bytes.wrapping_sub(1)
    }
}

/// Notes that there is another page now where one was sampled.
#[inline(always)]
fn end_page(page: u64) {
    let key = key_of(page);
    if PAGES.get_ptr(key).is_some() {
        let _ = PAGES.remove(key);
        emit::gone_page(page, key.tgid);
    }
}

/// The key of a page of the current process.
#[inline(always)]
fn key_of(page: u64) -> PageKey {
    PageKey::new((bpf_get_current_pid_tgid() >> 32) as u32, page)
}
