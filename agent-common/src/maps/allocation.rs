//! Which allocations are recorded.

use crate::limits::{ALLOCATION_DISTANCES, MAX_ANNOUNCING_FILES};

/// Whether allocations are recorded, and how often. The only value of the map `ALLOCATION_SETTINGS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocationSettings {
    /// Not 0 while they are: attaching and detaching all probes takes longer than many a capture.
    pub is_recording: u64,
    /// From one recorded byte to the next, in bytes: values of the exponential distribution, each as likely as the
    /// others and at least 1.
    pub distances: [u64; ALLOCATION_DISTANCES],
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for AllocationSettings {}

/// Where a process has the code of allocators that map memory for what they are asked for. A value of the map
/// `ALLOCATORS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorCode {
    /// The allocator that replaces the C library's.
    pub replacing: CodeRange,
    /// Files that announce allocations, the first ones of the array.
    pub announcing: [CodeRange; MAX_ANNOUNCING_FILES],
}

impl AllocatorCode {
    /// Whether an address is in a file that announces allocations.
    #[inline(always)]
    #[must_use]
    pub fn announces(&self, address: u64) -> bool {
        let mut is_announcing = false;
        for range in &self.announcing {
            is_announcing |= range.contains(address);
        }
        is_announcing
    }
}

/// Addresses of code; empty where there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeRange {
    /// The first one.
    pub start: u64,
    /// The one after them.
    pub end: u64,
}

impl CodeRange {
    /// Whether an address is one of them.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        address >= self.start && address < self.end
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for AllocatorCode {}
