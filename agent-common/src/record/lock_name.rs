//! The name of a lock.

use super::{header::Header, text::Text};

/// The name of a lock for which threads wait; the characters follow. It comes from passes over the threads,
/// never from a BPF program.
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
pub struct LockName {
    /// [`RecordKind::LOCK_NAME`](super::RecordKind::LOCK_NAME).
    pub header: Header,
    /// The hash by which samples refer to it, never 0.
    pub lock: u64,
    /// The name, as UTF-8.
    pub name: Text,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<LockName>() == 24);
