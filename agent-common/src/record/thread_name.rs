//! The name of a thread.

use super::{header::Header, text::Text};

/// The name of a thread, whenever it has changed; the characters follow.
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
pub struct ThreadName {
    /// [`RecordKind::THREAD_NAME`](super::RecordKind::THREAD_NAME).
    pub header: Header,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// Hash of the code object of the frame nearest the root, 0 for none.
    pub root: u64,
    /// The kernel's name of the thread (`comm`), ended by a zero byte.
    pub comm: [u8; 16],
    /// The attribute `_name` of the root frame's first variable, which is
    /// `threading.Thread.name` if that frame is `Thread._bootstrap`; kind 0 when there is none.
    pub python: Text,
    /// Whether that frame is the root: 1 for a stack that is complete, else 0.
    pub is_complete: u32,
}

const _: () = assert!(size_of::<ThreadName>() == 48);
