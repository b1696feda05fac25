//! What the kernel half says of single samples and processes, for those who look for a fault.
//!
//! The user half sets the level before it loads the kernel half, so that to the verifier it is a
//! constant: what is not asked for costs nothing. All that is said is counted as well, asked for or
//! not.

use aya_log_ebpf::debug;

use crate::current;

/// As what the user half logs it: as what its room for the kernel half says itself.
const TARGET: &str = "agent::kernel";

/// Says that a sample's stack is not whole; the numbers are those of
/// [`PythonUnwindStatus`](agent_common::record::PythonUnwindStatus) and [`NativeUnwindStatus`](agent_common::record::NativeUnwindStatus).
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn incomplete_stack(end: u32, native_status: u32) -> u32 {
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    debug!(
        (),
        target: TARGET,
        "thread {} of process {}: the Python walk ended with {}, the native one with {}",
        sampler.tid.get(),
        sampler.tgid.get(),
        end,
        native_status
    );
    1
}

/// Says that a process is not profiled because too many are.
#[inline(always)]
pub(crate) fn left_out(tgid: u32) {
    debug!(
        (),
        target: TARGET,
        "process {} is left out: too many are known", tgid
    );
}
