//! What the kernel half says of single samples and processes, for those who look for a fault.
//!
//! The user half sets the level before it loads the kernel half, so that to the verifier it is a
//! constant: what is not asked for costs nothing. All that is said is counted as well, asked for or
//! not.

use agent_common::record::{NativeEnd, WalkEnd};
use aya_log_ebpf::debug;

use crate::sampler::Sampler;

/// As what the user half logs it: as what its room for the kernel half says itself.
const TARGET: &str = "agent::kernel";

/// Says that a sample's stack is not whole; the numbers are those of [`WalkEnd`] and
/// [`NativeEnd`].
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn log_ends(end: u32, native_end: u32) -> u32 {
    let end = WalkEnd(end as u16);
    let native_end = NativeEnd(native_end as u16);
    let is_whole = end == WalkEnd::ROOT
        || end == WalkEnd::NO_PYTHON
        || end == WalkEnd::NO_THREAD_STATE
        || end == WalkEnd::NO_FRAME;
    let is_native_whole = native_end == NativeEnd::ENTRY
        || native_end == NativeEnd::KERNEL_THREAD
        || native_end == NativeEnd::NOT_WALKED;
    if is_whole && is_native_whole {
        return 0;
    }
    let Some(sampler) = Sampler::current() else {
        return 0;
    };
    debug!(
        (),
        target: TARGET,
        "thread {} of process {}: the Python walk ended with {}, the native one with {}",
        sampler.tid.get(),
        sampler.tgid.get(),
        end.0,
        native_end.0
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
