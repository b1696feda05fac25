//! The context switches of a processor.

use agent_common::thinning::Thinning;

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
    /// Switches since the last one that was timed.
    pub(crate) untimed: u32,
    pub(crate) reserved: u32,
}
