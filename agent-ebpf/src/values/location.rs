//! A code address that is remembered.

use agent_common::native::CodeLocation;

/// A code address that is remembered.
#[repr(C)]
pub(crate) struct CachedLocation {
    pub(crate) address: u64,
    /// Of the mappings when it was looked up.
    pub(crate) epoch: u64,
    pub(crate) place: CodeLocation,
}
