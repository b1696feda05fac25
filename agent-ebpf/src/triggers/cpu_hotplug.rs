//! Processors that come or go.
//!
//! The kernel forgets the clock of a processor that goes, and gives none to one that comes: the
//! user half starts clocks anew when this was counted.

use agent_common::counter::Counter;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::maps::count;

/// Attached to `cpuhp_exit`, which ends every step in which a processor comes or goes.
#[raw_tracepoint]
pub(crate) fn on_cpu_hotplug(_: RawTracePointContext) -> u32 {
    count(Counter::CPU_HOTPLUG_CHANGES);
    0
}
