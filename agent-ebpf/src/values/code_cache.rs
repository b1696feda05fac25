//! A table in front of the map `CODE_OBJECTS`.

use agent_common::{cache_age::MAX_AGE_NS, memory::UserAddr};

/// Entries of a [`CodeCache`].
const CODE_CACHE_ENTRIES: usize = 256;

/// Unit of [`CodeCacheEntry::valid_units`], in nanoseconds.
pub(crate) const VALID_UNIT_NS: u64 = 1 << 14;

const _: () = assert!(MAX_AGE_NS / VALID_UNIT_NS <= u16::MAX as u64);

/// The code objects that a processor has looked up. A lookup in the map costs as much as the rest
/// of a frame. A code object has one possible entry.
#[repr(C)]
pub(crate) struct CodeCache {
    entries: [CodeCacheEntry; CODE_CACHE_ENTRIES],
}

/// A code object and its symbol, valid until it has to be revalidated. As small as can be: a sample
/// reads one for each of its frames, most of them from memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CodeCacheEntry {
    pub(crate) code: u64,
    pub(crate) symbol: u64,
    /// See `CacheAge::revalidated_ns`.
    pub(crate) revalidated_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) first_traceable_bytes: u16,
    /// See `CacheAge::valid_ns`, in [`VALID_UNIT_NS`], rounded down.
    pub(crate) valid_units: u16,
}

impl CodeCacheEntry {
    /// When it has to be revalidated, in nanoseconds of the monotonic clock.
    #[inline(always)]
    pub(crate) fn due_ns(&self) -> u64 {
        let valid_ns = u64::from(self.valid_units) * VALID_UNIT_NS;
        self.revalidated_ns.wrapping_add(valid_ns)
    }
}

impl CodeCache {
    /// The entry of a code object; these are at least 16 bytes apart.
    #[inline(always)]
    pub(crate) fn entry(&mut self, code: UserAddr) -> &mut CodeCacheEntry {
        let place = (code.0 >> 4) ^ (code.0 >> 13);
        &mut self.entries[place as usize & (CODE_CACHE_ENTRIES - 1)]
    }
}
