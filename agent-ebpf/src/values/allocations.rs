//! Which allocations of a processor are sampled.

/// How far the allocations of a processor are from the next sample. A thread may take the processor from another one
/// at any place: what both count at a time counts once.
#[repr(C)]
pub(crate) struct SampledAllocations {
    /// Bytes until the next sample, 0 before the first.
    pub(crate) left: u64,
    /// When the time began in which samples are counted, in nanoseconds of the monotonic clock.
    pub(crate) began_ns: u64,
    /// Samples since then.
    pub(crate) count: u64,
    /// How often the period was doubled from which [`Self::left`] was drawn.
    pub(crate) doublings: u32,
    pub(crate) reserved: u32,
}

/// The allocation that a thread in a probe samples.
#[repr(C)]
pub(crate) struct DueAllocation {
    /// How much it asks for.
    pub(crate) bytes: u64,
    /// How many of the usual periods the period is.
    pub(crate) periods: u64,
}
