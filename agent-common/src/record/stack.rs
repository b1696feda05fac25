//! A stack of Python frames.

use super::header::Header;
use crate::limits::MAX_FRAMES;

/// What a frame on the wire is.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u32);

impl FrameKind {
    /// A Python frame whose code object was read.
    pub const PYTHON: Self = Self(1);
    /// A frame that the interpreter itself hides; not part of the stack.
    pub const HIDDEN: Self = Self(2);
    /// A Python frame whose code object could not be read for this sample;
    /// [`Frame::symbol`] is the code object's address.
    pub const UNRESOLVED: Self = Self(3);
    /// The same for the frame of a generator or coroutine.
    pub const UNRESOLVED_GENERATOR: Self = Self(4);
}

/// One frame of a stack.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Hash of the code object.
    pub symbol: u64,
    /// Bytes from the start of the bytecode; -1 (as `u32`) before the first instruction.
    pub instruction_offset: u32,
    /// What it is.
    pub kind: FrameKind,
}

/// The start of a stack; [`Frame`]s follow.
///
/// Frames stand leaf first. Those from [`crate::limits::LEAF_FRAMES`] on are a ring whose
/// oldest entry, the one nearest the leaf, is `root_start` entries in.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackHead {
    /// [`RecordKind::STACK`](super::RecordKind::STACK).
    pub header: Header,
    /// Hash of the stack.
    pub stack: u64,
    /// Frames that follow.
    pub frame_count: u16,
    /// Where the ring of root-most frames starts.
    pub root_start: u16,
    /// Frames between the leaf-most and the root-most ones that were left out.
    pub left_out: u32,
}

const _: () = assert!(size_of::<Frame>() == 16);
const _: () = assert!(size_of::<StackHead>() == 24);
const _: () = assert!(MAX_FRAMES <= u16::MAX as usize);
