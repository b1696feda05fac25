//! The name of a task of asyncio.

use super::{header::Header, text::Text};

/// Bytes for the characters of a task's name.
pub const TASK_NAME_BYTES: usize = 64;

/// Most bytes of them that are used: a multiple of every character's size, below a power of two.
pub const MAX_TASK_NAME_BYTES: u16 = 60;

/// The name of a task, or where it has only a number, of its coroutine: what samples refer to.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// [`RecordKind::TASK_NAME`](super::RecordKind::TASK_NAME).
    pub header: Header,
    /// The hash by which samples refer to it, 0 where there is none.
    pub task: u64,
    /// How its characters are encoded, and how many there are.
    pub text: Text,
    /// Zero.
    pub reserved: u32,
    /// Its characters; the rest is zero.
    pub name: [u64; TASK_NAME_BYTES / 8],
}

impl TaskName {
    /// No name.
    pub const NONE: Self = Self {
        header: Header {
            kind: super::RecordKind::TASK_NAME,
            reserved: 0,
            bytes: size_of::<Self>() as u32,
        },
        task: 0,
        text: Text {
            kind: 0,
            truncated: 0,
            bytes: 0,
        },
        reserved: 0,
        name: [0; TASK_NAME_BYTES / 8],
    };
}

const _: () = assert!(size_of::<TaskName>() == 88);
