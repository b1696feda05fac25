//! The context switches of a processor.

use agent_common::thinning::{Thinning, draw};
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;

/// What is known of the context switches of a processor.
#[repr(C)]
pub(crate) struct Switches {
    /// When the thread that runs got the processor, in nanoseconds of the monotonic clock: the time of the last switch.
    pub(crate) last_ns: u64,
    /// Which of them are sampled.
    pub(crate) sampled: Thinning,
    /// For how many the present one stands.
    pub(crate) weight: u32,
    /// What its thread waits for, 0 if it could go on.
    pub(crate) state: u32,
    /// Switches, and ends of waits, since they were last added to the counters.
    pub(crate) uncounted: u32,
    pub(crate) uncounted_waits: u32,
    /// The last number that was drawn, 0 for none.
    drawn: u64,
}

impl Switches {
    /// A number that does not depend on what is sampled. The kernel's generator takes several times as long, and gives
    /// the first of them.
    #[inline(always)]
    pub(crate) fn draw(&mut self) -> u32 {
        if self.drawn == 0 {
            // SAFETY: the helper takes no arguments.
            self.drawn = unsafe { bpf_get_prandom_u32() }.into();
        }
        draw(&mut self.drawn)
    }
}
