//! Page faults: samples the thread whose access to memory the kernel has to resolve.
//!
//! The fault may come from code of the kernel, as in `read` into fresh memory. The registers of the
//! context are then the kernel's; the walk of native frames begins at those that the thread had in its
//! own code, for all triggers.

use agent_common::record::ProfileKind;
use aya_ebpf::{macros::perf_event, programs::PerfEventContext};

use crate::sample;

/// Attached to the counter of page faults of every processor, before the fault is resolved.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_page_fault(context: PerfEventContext) -> u32 {
    sample::take_event(&context, ProfileKind::PAGE_FAULTS);
    0
}
