//! What the tracing of context switches samples: threads that leave their processors, to wait or because others need them.

use super::{header::Header, sample::Sample};
use crate::native::Registers;

/// A thread has left its processor, and what it does until it is back is sampled.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedWait {
    /// Where. Its value is for how many of them it stands, its time when the thread left its processor. Its header is
    /// that of the whole record, of the kind [`RecordKind::STARTED_WAIT`](super::RecordKind::STARTED_WAIT).
    pub sample: Sample,
    /// The thread's registers in user space, all 0 where they could not be read.
    pub registers: Registers,
    /// `pthread_self()` of the thread that held the GIL of its interpreter, 0 for none,
    /// [`UNKNOWN_HOLDER`](Self::UNKNOWN_HOLDER).
    pub gil_holder: u64,
    /// When the thread was made, in nanoseconds.
    pub start_time_ns: u64,
    /// Its `pthread_self()`.
    pub thread_id: u64,
    /// `__state` of the kernel with which it left, 0 if it could go on.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

impl StartedWait {
    /// [`Self::gil_holder`] where that could not be read.
    pub const UNKNOWN_HOLDER: u64 = u64::MAX;
}

/// The thread is back.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedWait {
    /// [`RecordKind::ENDED_WAIT`](super::RecordKind::ENDED_WAIT).
    pub header: Header,
    /// When it left, as the time of its [`StartedWait::sample`].
    pub left_ns: u64,
    /// How long it waited, in nanoseconds, until it was woken.
    pub wait_ns: u64,
    /// How long it then waited for a processor, in nanoseconds.
    pub delay_ns: u64,
    /// The thread, in the initial PID namespace.
    pub tid: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<StartedWait>() == 72 + size_of::<Registers>() + 32);
const _: () = assert!(size_of::<EndedWait>() == 40);
