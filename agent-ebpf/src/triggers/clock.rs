//! The sampling clock: samples the thread that runs at each tick.
//!
//! At a pass over the threads, those that run are sampled too, by another clock that is on for a moment: a pass cannot
//! read the stacks of threads that run. It runs the same program, since the kernel takes long to verify another one.

use agent_common::{
    counter::Counter,
    limits::{AT_PASS_NS, AT_PASS_PERIOD_NS},
    record::ProfileKind,
};
use aya_ebpf::{
    helpers::generated::bpf_ktime_get_ns, macros::perf_event, programs::PerfEventContext,
};

use crate::{current, sample, task::Task};

/// Attached to both clocks of every processor.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_cpu(context: PerfEventContext) -> u32 {
    // SAFETY: the kernel translates reads of this field of the context.
    if begin_tick(unsafe { (*context.ctx).sample_period }) != 0 {
        sample::take(&context);
    }
    0
}

/// Prepares a sample of the current thread; returns 0 where its process is not profiled. A global function, so that
/// what it needs is not on the stack while frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_tick(period_ns: u64) -> u32 {
    let begun = if period_ns == AT_PASS_PERIOD_NS {
        begin_at_pass()
    } else {
        begin_sample()
    };
    u32::from(begun.is_some())
}

/// One that measures CPU time since the tick before.
#[inline(always)]
fn begin_sample() -> Option<()> {
    let (sampler, control) = sample::begin(Counter::SAMPLES)?;
    let periods = sampler.clock.periods(
        sampler.time_ns.get(),
        control.period_ns,
        sampler.tid.get(),
        Task::current().switches(),
    );
    let cpu_ns = u64::from(periods).wrapping_mul(control.period_ns);
    sampler.measures(ProfileKind::CPU, periods, cpu_ns);
    Some(())
}

/// One that a pass has asked for, unless there is one already: its clock is on for some ticks.
#[inline(always)]
fn begin_at_pass() -> Option<()> {
    let last_ns = &mut current::sampler()?.at_pass_ns;
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if now_ns.wrapping_sub(last_ns.get()) < AT_PASS_NS {
        return None;
    }
    last_ns.set(now_ns);
    let (sampler, _) = sample::begin(Counter::PASS_SAMPLES)?;
    sampler.measures(ProfileKind::AT_PASS, 1, 0);
    Some(())
}
