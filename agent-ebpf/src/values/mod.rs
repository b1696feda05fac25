//! Types of the map values that only the BPF programs use.
//!
//! Invariant: nothing here uses a map; [`crate::current`] provides the values of the current
//! processor.

mod allocations;
mod code_cache;
mod last_fault;
mod location;
mod resident_pages;
mod sampler;
mod slots;
mod switches;
mod thread_cache;
mod thread_name;
mod visited_process;
mod wakes;

pub(crate) use allocations::{DueAllocation, LastAllocation, SampledAllocations};
pub(crate) use code_cache::{CodeCache, CodeCacheEntry, VALID_UNIT_NS};
pub(crate) use last_fault::LastFault;
pub(crate) use location::CachedLocation;
pub(crate) use resident_pages::{
    CountedPages, KERNEL_TYPES, MEMORY_TYPES, Moves, PendingFault, ProcessCounters, ProcessPages,
};
pub(crate) use sampler::{AddressSearch, NativeSampler, SampledStacks, Sampler, WaitEnd};
pub(crate) use slots::Slots;
pub(crate) use switches::Switches;
pub(crate) use thread_cache::{CACHED_FRAMES, ThreadCache, copy};
pub(crate) use thread_name::{TEXT_MASK, ThreadNameRecord};
pub(crate) use visited_process::VisitedProcess;
pub(crate) use wakes::Wakes;
