//! What is counted of a process's resident pages.

use agent_common::{
    growth::SampledGrowth,
    layout::MAX_COUNTER_BYTES,
    limits::{COPY_PERIOD_BYTES, GROWTH_PERIOD_BYTES},
};

/// Types of memory that are counted: those of files, anonymous and shared memory.
pub(crate) const MEMORY_TYPES: usize = 3;

/// How many types the kernel counts, `MM_SWAPENTS` (2) among them.
pub(crate) const KERNEL_TYPES: usize = 4;

/// The counters of a process, as the kernel keeps them side by side.
pub(crate) type ProcessCounters = [u64; (MAX_COUNTER_BYTES / 8) as usize];

/// What a processor has counted of a process, or before Linux 6.2 a thread has for itself.
#[repr(C)]
pub(crate) struct CountedPages {
    /// The address of the process's `mm_struct`.
    pub(crate) memory: u64,
    /// By which address the kernel names the counts of the first type of all processors; since Linux 6.2.
    pub(crate) of_all: u64,
    /// The addresses of this processor's counts, 32 bits each; since Linux 6.2.
    pub(crate) addresses: [u64; MEMORY_TYPES],
    /// Its pages of each type, as they were when it was read last.
    pub(crate) pages: [i64; MEMORY_TYPES],
    /// By how much it has grown.
    pub(crate) growth: [SampledGrowth<GROWTH_PERIOD_BYTES>; MEMORY_TYPES],
}

/// What has been counted for all threads of a process.
#[repr(C)]
pub(crate) struct ProcessPages {
    /// The address of its `mm_struct`.
    pub(crate) memory: u64,
    /// Pages of each type that are accounted for.
    pub(crate) pages: [u64; MEMORY_TYPES],
}

impl CountedPages {
    /// Of a process that was not seen before.
    pub(crate) const NEW: Self = Self {
        memory: 0,
        of_all: 0,
        addresses: [0; MEMORY_TYPES],
        pages: [0; MEMORY_TYPES],
        growth: [SampledGrowth::NEW; MEMORY_TYPES],
    };
}

impl ProcessPages {
    /// As [`CountedPages::NEW`].
    pub(crate) const NEW: Self = Self {
        memory: 0,
        pages: [0; MEMORY_TYPES],
    };
}

/// The page fault that this processor resolves, as far as it may be a write to memory that has to be copied.
#[repr(C)]
pub(crate) struct PendingFault {
    /// The address, 0 where none is pending.
    pub(crate) address: u64,
    /// The thread.
    pub(crate) tid: u32,
    /// 1 when a page was allocated for it.
    pub(crate) has_page: u32,
    /// What was counted here before it was, by the kernel's numbers of types.
    pub(crate) counted: [i32; KERNEL_TYPES],
    /// What was copied on this processor.
    pub(crate) copied: SampledGrowth<COPY_PERIOD_BYTES>,
}

/// How much memory was moved on a processor in a short time.
#[repr(C)]
pub(crate) struct Moves {
    /// When the time began, in nanoseconds of the monotonic clock.
    pub(crate) began_ns: u64,
    /// Moves that were recorded since then.
    pub(crate) count: u64,
}
