//! Little-endian numbers in untrusted bytes.

/// The smaller of two numbers of bytes.
pub(super) fn at_most(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
}

/// The eight bytes at `offset` of `bytes`; bytes behind the end read as zero.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The four bytes at `offset` of `bytes`; bytes behind the end read as zero.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
