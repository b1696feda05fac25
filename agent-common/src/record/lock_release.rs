//! The end of a wait for a lock.

use super::sample::Sample;

/// A thread has ended the wait of another one: what it was doing.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRelease {
    /// The thread that released the lock; it measures nothing, since only the agent knows for how long the
    /// other one has waited. Its header is that of the whole record, of the kind
    /// [`RecordKind::LOCK_RELEASE`](super::RecordKind::LOCK_RELEASE).
    pub sample: Sample,
    /// Context switches of the thread that waited, which identify the wait: [`LockWait::switches`].
    ///
    /// [`LockWait::switches`]: crate::maps::LockWait::switches
    pub switches: u64,
    /// When the thread that waited was made, in nanoseconds.
    pub start_time_ns: u64,
    /// The thread that waited, in the initial PID namespace.
    pub waiter: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<LockRelease>() == 96);
