//! Pages by which processes grow.

use super::{header::Header, sample::Sample};

/// Memory by which a process has grown: who, and where it is.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// The thread, and how many bytes it stands for; its header is that of the whole record, of the kind
    /// [`RecordKind::NEW_PAGE`](super::RecordKind::NEW_PAGE).
    pub sample: Sample,
    /// Its page, or its huge page with [`IS_HUGE`].
    pub address: u64,
}

/// In the address of a page: it is a huge one.
pub const IS_HUGE: u64 = 1;

/// How many pages of so many bytes a huge page is: as many as one of them has entries of a table of pages.
#[inline(always)]
#[must_use]
pub const fn pages_of_huge(page_bytes: u64) -> u64 {
    page_bytes / 8
}

/// A [`NewPage`] is gone: there is another one at its address.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GonePage {
    /// [`RecordKind::GONE_PAGE`](super::RecordKind::GONE_PAGE).
    pub header: Header,
    /// As [`NewPage::address`].
    pub address: u64,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// Memory has been moved: each of its pages has another address, and what was there is gone.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedMemory {
    /// [`RecordKind::MOVED_MEMORY`](super::RecordKind::MOVED_MEMORY).
    pub header: Header,
    /// Address of its first page before.
    pub from: u64,
    /// Address of its first page now.
    pub to: u64,
    /// How many bytes of it have been moved.
    pub bytes: u64,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<NewPage>() == 80);
const _: () = assert!(size_of::<GonePage>() == 24);
const _: () = assert!(size_of::<MovedMemory>() == 40);
