//! Native stacks whose walk ended at code that the agent did not know yet: what it needs to walk on once it does.
//!
//! As `PERF_SAMPLE_STACK_USER` of `perf_event_open(2)`, a part of the thread's stack is copied, but only for these.

use super::{header::Header, unwind_status::NativeUnwindStatus};
use crate::{
    layout::RunStyle, limits::STACK_PAGE_BYTES, native::NativePosition, python::PythonRuns,
};

/// A page of the stack of a thread, as it was when the sample was taken.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackPage {
    /// [`RecordKind::STACK_PAGE`](super::RecordKind::STACK_PAGE).
    pub header: Header,
    /// [`UnfinishedStack::stack`] of the record that follows.
    pub stack: u64,
    /// Where it was.
    pub address: u64,
    /// What was there.
    pub bytes: [u8; STACK_PAGE_BYTES],
}

/// A walk that is to be continued; it follows its [`StackPage`]s.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedStack {
    /// [`RecordKind::UNFINISHED_STACK`](super::RecordKind::UNFINISHED_STACK).
    pub header: Header,
    /// The native stack that ends there. No other sample has it.
    pub stack: u64,
    /// [`ProcessState::program`](crate::maps::ProcessState::program) of the process: 0 of all that ran before the session.
    pub program: u64,
    /// [`TrackedProcess::mappings_epoch`](crate::maps::TrackedProcess::mappings_epoch) of the mappings that were looked at,
    /// 0 for none.
    pub mappings_epoch: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// How many Python frames the thread has.
    pub python_depth: u32,
    /// How the walk ended: [`NativeUnwindStatus::NO_TABLE`], where the last frame of the stack is the one to go on
    /// with, or [`NativeUnwindStatus::UNMAPPED`], where that is the one after it.
    pub status: NativeUnwindStatus,
    /// How the runs of Python frames are distinguished.
    pub style: RunStyle,
    /// Native frames that the stack has.
    pub kept: u32,
    /// The frame at which the walk ended.
    pub position: NativePosition,
    /// The runs of Python frames.
    pub runs: PythonRuns,
}

const _: () = assert!(size_of::<StackPage>() == 24 + STACK_PAGE_BYTES);
