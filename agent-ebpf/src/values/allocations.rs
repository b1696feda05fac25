//! Which allocations of a processor are sampled.

use agent_common::native::Registers;

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

/// What a thread has last asked a function with a probe for.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LastAllocation {
    /// How much.
    pub(crate) bytes: u64,
    /// Where its stack ended then.
    pub(crate) stack_pointer: u64,
    /// Where the function returns to.
    pub(crate) caller: u64,
    /// The id of the thread, 0 for none.
    pub(crate) thread: u64,
}

/// The allocation that a thread in a probe samples.
#[repr(C)]
pub(crate) struct DueAllocation {
    /// How much it asks for.
    pub(crate) bytes: u64,
    /// How many of the usual periods the period is; or for how many allocations it stands, with
    /// [`ANNOUNCED_ALLOCATION`](agent_common::limits::ANNOUNCED_ALLOCATION).
    pub(crate) periods: u64,
    /// Where one that is announced has its arguments.
    pub(crate) registers: Registers,
}
