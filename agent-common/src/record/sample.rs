//! One sample of one thread.

use super::{
    header::{Header, RecordKind},
    memory::MemoryType,
    profile_kind::ProfileKind,
    unwind_status::{NativeUnwindStatus, PythonUnwindStatus},
    wait::WaitReason,
};

/// One sample of one thread.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// [`RecordKind::SAMPLE`](super::RecordKind::SAMPLE).
    pub header: Header,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Hash of the stack, 0 for a sample without Python frames.
    pub stack: u64,
    /// Hash of the native stack, 0 for a sample without kernel and native frames.
    pub native_stack: u64,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// What it measures: nanoseconds, bytes or events, as [`Self::kind`] says.
    pub value: u64,
    /// Samples that it stands for, at least 1: more where the clock missed some.
    pub count: u32,
    /// What [`Self::value`] is.
    pub kind: ProfileKind,
    /// How unwinding of Python frames ended.
    pub python_status: PythonUnwindStatus,
    /// 1 when the thread held the GIL or, without one, was attached to the interpreter.
    pub holds_gil: u8,
    /// 1 when it also collected garbage.
    pub collects_garbage: u8,
    /// How unwinding of native frames ended.
    pub native_status: NativeUnwindStatus,
    /// What the thread waited for.
    pub wait: WaitReason,
    /// Which memory it is about.
    pub memory: MemoryType,
    /// Hash of the name of the task of asyncio that the thread ran, 0 for none.
    pub task: u64,
}

const _: () = assert!(size_of::<Sample>() == 72);

impl Sample {
    /// That of every sample.
    pub const HEADER: Header = Header {
        kind: RecordKind::SAMPLE,
        reserved: 0,
        bytes: 72,
    };
}
