//! A frame of a thread that waits.

use agent_common::memory::UserAddr;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) address: UserAddr,
    pub(super) code: UserAddr,
    /// The frame of the caller.
    pub(super) previous: UserAddr,
    /// Whether it is the interpreter's own.
    pub(super) is_internal: bool,
}
