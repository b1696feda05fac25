//! A code object and its line table.

use super::{header::Header, text::Text};

/// How a code object maps instructions to lines.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineTableFormat(pub u16);

impl LineTableFormat {
    /// `co_lnotab`: pairs of address and signed line deltas (3.6 to 3.9).
    pub const LNOTAB: Self = Self(1);
    /// The same with unsigned line deltas (2.7).
    pub const UNSIGNED_LNOTAB: Self = Self(4);
    /// `co_linetable` of 3.10: pairs of range length and signed line delta.
    pub const RANGES: Self = Self(2);
    /// `co_linetable` of 3.11 and later: the location table of PEP 657.
    pub const LOCATIONS: Self = Self(3);
}

/// The start of a code object: name, file and the start of the line table follow, the first two
/// padded with zeros to a multiple of eight bytes.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeObjectHead {
    /// [`RecordKind::CODE_OBJECT`](super::RecordKind::CODE_OBJECT).
    pub header: Header,
    /// Hash of the code object.
    pub symbol: u64,
    /// `co_firstlineno`.
    pub first_line: i32,
    /// Bytes of the line table; more than what follows when there are pieces.
    pub line_table_bytes: u32,
    /// Where in the line table the bytes that follow start.
    pub line_table_start: u32,
    /// The qualified name, or the name where the version has no other.
    pub name: Text,
    /// The file's name.
    pub file: Text,
    /// How to read the line table.
    pub line_table_format: LineTableFormat,
    /// Zero.
    pub reserved: u16,
}

const _: () = assert!(size_of::<CodeObjectHead>() == 40);
