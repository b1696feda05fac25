//! Text on the wire.

use crate::limits::TEXT_BYTES;

/// How a piece of text on the wire is encoded.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Bytes of one character: 1 (Latin-1), 2 or 4, or [`Text::BYTES`]; 0 when the text could not
    /// be read.
    pub kind: u8,
    /// 1 when characters were left out at its end.
    pub truncated: u8,
    /// Bytes that follow, without the padding to a multiple of eight.
    pub bytes: u16,
}

impl Text {
    /// The [`kind`](Self::kind) of bytes in an encoding that nothing names, mostly UTF-8.
    pub const BYTES: u8 = 3;

    /// A text of `characters` characters of `width` bytes, cut to [`TEXT_BYTES`].
    #[inline(always)]
    #[must_use]
    pub const fn new(kind: u8, width: u64, characters: u64) -> Self {
        let most = TEXT_BYTES as u64 / width;
        let truncated = characters > most;
        let characters = if truncated { most } else { characters };
        Self {
            kind,
            truncated: truncated as u8,
            bytes: (characters * width) as u16,
        }
    }

    /// Words of eight bytes that the text takes with its padding.
    #[inline(always)]
    #[must_use]
    pub const fn words(self) -> usize {
        (self.bytes as usize).div_ceil(8)
    }

    /// All of this in one number.
    #[inline(always)]
    #[must_use]
    pub const fn descriptor(self) -> u32 {
        (self.bytes as u32) << 16 | (self.truncated as u32) << 8 | self.kind as u32
    }
}
