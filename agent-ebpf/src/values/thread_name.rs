//! The record of a thread name that is being read.

use agent_common::{limits::TEXT_BYTES, python::Attributes, record::ThreadName};

/// Mask of the bytes of a name, as the bound that the verifier needs.
pub(crate) const TEXT_MASK: u32 = 2 * TEXT_BYTES as u32 - 1;

/// The record, and the position of the search for the name.
#[repr(C)]
pub(crate) struct ThreadNameRecord {
    pub(crate) head: ThreadName,
    pub(crate) text: [u64; TEXT_MASK as usize / 8 + 1],
    pub(crate) attributes: Attributes,
}
