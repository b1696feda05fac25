//! Which allocations are recorded.

use crate::limits::ALLOCATION_DISTANCES;

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

/// Where a process has the code of an allocator that replaces the C library's, and maps memory for what it is asked
/// for. A value of the map `ALLOCATORS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorCode {
    /// Its first address.
    pub start: u64,
    /// The address after it.
    pub end: u64,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for AllocatorCode {}
