//! Threads that wait for locks.

/// A wait for a lock whose end is to be recorded: the value of the map `LOCK_WAITS`, whose key is the id of the
/// thread in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWait {
    /// When the thread was made, in nanoseconds; with the id it identifies the thread.
    pub start_time_ns: u64,
    /// Its context switches while it waits: with more of them the wait is over.
    pub switches: u64,
    /// The address of the word for which it waits in the system call `futex`.
    pub word: u64,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for LockWait {}
