//! Growth of resident memory: samples the thread whose page fault made its process grow.

use agent_common::{limits::GROWTH_PERIOD_BYTES, record::ProfileKind};
use aya_ebpf::{macros::perf_event, programs::PerfEventContext};

use crate::{resident, sample};

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
    if begin_growth() != 0 {
        sample::take(&context);
    }
    0
}

/// Prepares the samples that are due of the current thread; returns 0 where there are none. A global function, so that
/// what it needs is not on the stack while frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_growth() -> u32 {
    let due = resident::after_fault();
    if due.samples() == 0 {
        return 0;
    }
    let Some((sampler, _)) = sample::begin() else {
        return 0;
    };
    let bytes = u64::from(due.samples()).wrapping_mul(GROWTH_PERIOD_BYTES);
    sampler.measures(ProfileKind::GROWTH, due.samples(), bytes);
    sampler.memory.set(due.memory().0.into());
    1
}
