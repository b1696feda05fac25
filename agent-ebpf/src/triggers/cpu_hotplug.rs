//! Processors that go online or offline.
//!
//! The kernel removes the clock of a processor that goes offline, and starts none on one that goes
//! online: the agent opens the clocks again when this counter changes.

use agent_common::counter::Counter;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::maps::count;

/// Attached to `cpuhp_exit`, the end of every step of a processor on its way online or offline.
#[raw_tracepoint]
pub(crate) fn on_cpu_hotplug(_: RawTracePointContext) -> u32 {
    count(Counter::CPU_HOTPLUG_CHANGES);
    0
}
