//! Settings that the agent changes at any time.

/// Settings that the agent changes while the BPF programs run: the only value of the map `CONTROL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Time between two samples, in nanoseconds.
    pub period_ns: u64,
    /// What was sent before this time is sent again when next seen, since the agent may have
    /// evicted it; in nanoseconds of the monotonic clock.
    pub resend_before_ns: u64,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Control {}
