//! The result of a lookup of a code address.

use agent_common::{native::CodeLocation, record::NativeKind};

/// A code address and its location.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CachedLocation {
    pub(crate) address: u64,
    /// `TrackedProcess::mappings_epoch` at the lookup.
    pub(crate) epoch: u64,
    pub(crate) location: CodeLocation,
}

impl CachedLocation {
    /// Whether it is that of `address` in a process with these mappings. Processes that were forked
    /// share mappings, and each has generated code of its own.
    #[inline(always)]
    pub(crate) fn is_of(&self, address: u64, epoch: u64, tgid: u32) -> bool {
        self.address == address
            && self.epoch == epoch
            && (self.location.kind != NativeKind::ANONYMOUS || self.location.file_or_pid == tgid)
    }
}
