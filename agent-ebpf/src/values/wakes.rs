//! When a processor wakes the agent.

/// What a processor has sent since it last checked how much is unread.
///
/// A program that interrupts another one on the same processor may change it meanwhile: a check
/// then comes a little later.
#[repr(C)]
pub(crate) struct Wakes {
    /// When it last woke the agent, in nanoseconds of the monotonic clock.
    pub(crate) woken_ns: u64,
    /// Bytes that it has sent since the last check.
    pub(crate) unchecked_bytes: u32,
}
