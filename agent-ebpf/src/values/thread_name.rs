//! A record of a thread's name in the making.

use agent_common::{limits::TEXT_BYTES, python::Attributes, record::ThreadName};

/// Bits of the bytes of a name: a mask that the verifier sees.
pub(crate) const TEXT_MASK: u32 = 2 * TEXT_BYTES as u32 - 1;

/// A record of a thread's name in the making.
#[repr(C)]
pub(crate) struct ThreadNameRecord {
    pub(crate) head: ThreadName,
    pub(crate) text: [u64; TEXT_MASK as usize / 8 + 1],
    pub(crate) attributes: Attributes,
}
