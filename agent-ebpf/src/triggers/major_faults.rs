//! Major page faults: samples the thread that waits for a page to be read from a disk.

use agent_common::record::ProfileKind;
use aya_ebpf::{macros::perf_event, programs::PerfEventContext};

use crate::sample;

/// Attached to the counter of major page faults of every processor, after the page was read.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_major_fault(context: PerfEventContext) -> u32 {
    sample::take_event(&context, ProfileKind::MAJOR_FAULTS);
    0
}
