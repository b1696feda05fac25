//! What the user half changes at any time.

/// What the user half changes while the kernel half runs: the one value of the map `CONTROL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Time between two samples, in nanoseconds.
    pub period_ns: u64,
    /// Since when what was sent is known to the user half, in nanoseconds of the monotonic clock:
    /// what was sent before it may have forgotten, and it is sent again when it is next seen.
    pub resend_before_ns: u64,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Control {}
