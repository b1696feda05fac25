//! What happens to processes.

use super::header::Header;

/// What happened to a process.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEventKind(pub u32);

impl ProcessEventKind {
    /// It was started by a profiled process, as a copy of that.
    pub const FORKED: Self = Self(1);
    /// It runs another program now.
    pub const EXECUTED: Self = Self(2);
    /// It is not known to run Python, and has more executable mappings than before.
    pub const MAPPED: Self = Self(3);
    /// It has ended.
    pub const EXITED: Self = Self(4);
    /// It runs another program now, and is not profiled; sent where the agent is to say whether it will be.
    pub const APPEARED: Self = Self(5);
}

/// Something that happened to a process, which is a profiled one but for [`ProcessEventKind::APPEARED`].
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEvent {
    /// [`RecordKind::PROCESS_EVENT`](super::RecordKind::PROCESS_EVENT).
    pub header: Header,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// Its parent, in the initial PID namespace, for [`ProcessEventKind::FORKED`], else 0.
    pub parent: u32,
    /// What.
    pub kind: ProcessEventKind,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<ProcessEvent>() == 32);
