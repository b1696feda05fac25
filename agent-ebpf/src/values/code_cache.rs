//! What a processor has looked up lately of code objects.

use agent_common::memory::UserAddr;

/// Entries of a [`CodeCache`].
const CODE_CACHE_ENTRIES: usize = 512;

/// What this processor has looked up lately: a table in front of the map, since a look-up in the
/// map costs as much as all the rest of a frame. A code object has one place in it.
#[repr(C)]
pub(crate) struct CodeCache {
    entries: [CodeCacheEntry; CODE_CACHE_ENTRIES],
}

/// A code object and its symbol, to be believed until the next proof is due.
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
    /// The place of a code object, which are at least 16 bytes apart.
    #[inline(always)]
    pub(crate) fn entry(&mut self, code: UserAddr) -> &mut CodeCacheEntry {
        let place = (code.0 >> 4) ^ (code.0 >> 13);
        &mut self.entries[place as usize & (CODE_CACHE_ENTRIES - 1)]
    }
}
