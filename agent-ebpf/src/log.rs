//! Debug messages about single samples and processes.
//!
//! The agent sets the level before it loads the programs, so that it is a constant to the verifier
//! and disabled messages cost nothing. Every event that is logged is also counted.

use aya_log_ebpf::debug;

use crate::current;

/// The target of the messages in the agent's log: that of the module that loads the programs.
const TARGET: &str = "agent::kernel";

/// Logs that the stack of a sample is incomplete; the numbers are those of
/// [`PythonUnwindStatus`](agent_common::record::PythonUnwindStatus) and
/// [`NativeUnwindStatus`](agent_common::record::NativeUnwindStatus).
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn incomplete_stack(end: u32, native_status: u32) -> u32 {
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    debug!(
        (),
        target: TARGET,
        "thread {} of process {}: Python unwind status {}, native unwind status {}",
        sampler.tid.get(),
        sampler.tgid.get(),
        end,
        native_status
    );
    1
}

/// Logs that a process is not profiled because the map is full.
#[inline(always)]
pub(crate) fn left_out(tgid: u32) {
    debug!(
        (),
        target: TARGET,
        "process {} not tracked: map is full", tgid
    );
}
