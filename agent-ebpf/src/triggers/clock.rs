//! The sampling clock: samples the thread that runs at each tick.

use agent_common::record::ProfileKind;
use aya_ebpf::{macros::perf_event, programs::PerfEventContext};

use crate::{sample, task::Task};

/// Attached to the clock of every processor.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_cpu(context: PerfEventContext) -> u32 {
    if begin_sample().is_some() {
        sample::take(&context);
    }
    0
}

/// Prepares a sample of the current thread, if its process is profiled: CPU time since the tick
/// before.
#[inline(always)]
fn begin_sample() -> Option<()> {
    let (sampler, control) = sample::begin()?;
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
