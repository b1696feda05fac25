//! The result of a lookup of a code address.

use agent_common::native::CodeLocation;

/// A code address and its location.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CachedLocation {
    pub(crate) address: u64,
    /// `TrackedProcess::mappings_epoch` at the lookup.
    pub(crate) epoch: u64,
    pub(crate) location: CodeLocation,
}
