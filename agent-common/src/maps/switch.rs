//! Threads whose context switches are traced.

use crate::thinning::Thinning;

/// What a thread did when it last left a processor, and how long it has waited: the value of the map
/// `SWITCHED_THREADS`, whose key is the id of the thread in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchedThread {
    /// When it left, in nanoseconds of the monotonic clock.
    pub left_ns: u64,
    /// For how long it had waited for processors by then, in nanoseconds, where the kernel keeps that.
    pub run_delay_ns: u64,
    /// Its waits that are over, in nanoseconds, up to [`SHORT_WAIT_NS`](crate::limits::SHORT_WAIT_NS) of each.
    pub short_ns: u64,
    /// Which of its context switches are sampled.
    pub sampled: Thinning,
    /// 1 when it waits, 0 when it could run.
    pub is_waiting: u32,
    /// For how many of its context switches this one is a sample, 0 for none.
    pub weight: u32,
    /// What it waits for.
    pub class: WaitClass,
    /// Zero.
    pub reserved: u32,
}

/// What a thread waits for, as far as its system call alone says.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitClass(pub u32);

impl WaitClass {
    /// Something else.
    pub const OTHER: Self = Self(0);
    /// A lock, the GIL among them.
    pub const LOCK: Self = Self(1);
    /// The end of a time.
    pub const SLEEP: Self = Self(2);
    /// One of several descriptors.
    pub const POLL: Self = Self(3);
    /// A descriptor or a file.
    pub const IO: Self = Self(4);
    /// A child process.
    pub const CHILD: Self = Self(5);
    /// A page of memory.
    pub const PAGE_FAULT: Self = Self(6);
    /// How many there are.
    pub const COUNT: u32 = 7;
}

/// System calls whose [`WaitClass`] is known: the keys of the map `WAIT_CLASSES`.
pub const SYSTEM_CALLS: u32 = 512;

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for SwitchedThread {}

const _: () = assert!(size_of::<SwitchedThread>() == 56);
