//! An exception that was raised.

use super::{header::Header, sample::Sample};

/// Bytes of the name of an exception's class, with a zero byte at the end; a longer name is cut.
pub const EXCEPTION_NAME_BYTES: usize = 64;

/// A thread has raised an exception: where.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raise {
    /// The thread; its header is that of the whole record, of the kind
    /// [`RecordKind::RAISE`](super::RecordKind::RAISE).
    pub sample: Sample,
    /// Hash of the name of the exception's class, 0 where it could not be read.
    pub exception: u64,
}

/// The name of a class of exceptions that samples refer to.
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
pub struct ExceptionName {
    /// [`RecordKind::EXCEPTION_NAME`](super::RecordKind::EXCEPTION_NAME).
    pub header: Header,
    /// The hash by which samples refer to it, never 0.
    pub exception: u64,
    /// Its `tp_name`, UTF-8, ended by a zero byte: with the module for classes of extensions, without for
    /// those of Python.
    pub name: [u8; EXCEPTION_NAME_BYTES],
}

const _: () = assert!(size_of::<Raise>() == 80);
const _: () = assert!(size_of::<ExceptionName>() == 80);
