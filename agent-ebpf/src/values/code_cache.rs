//! A table in front of the map `CODE_OBJECTS`.

use agent_common::memory::UserAddr;

/// Entries of a [`CodeCache`].
const CODE_CACHE_ENTRIES: usize = 256;

/// The code objects that a processor has looked up. A lookup in the map costs as much as the rest
/// of a frame. A code object has one possible entry.
#[repr(C)]
pub(crate) struct CodeCache {
    entries: [CodeCacheEntry; CODE_CACHE_ENTRIES],
}

/// A code object and its symbol, valid until it has to be revalidated.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CodeCacheEntry {
    pub(crate) code: u64,
    pub(crate) symbol: u64,
    pub(crate) due_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) first_traceable_bytes: u32,
}

impl CodeCache {
    /// The entry of a code object; these are at least 16 bytes apart.
    #[inline(always)]
    pub(crate) fn entry(&mut self, code: UserAddr) -> &mut CodeCacheEntry {
        let place = (code.0 >> 4) ^ (code.0 >> 13);
        &mut self.entries[place as usize & (CODE_CACHE_ENTRIES - 1)]
    }
}
