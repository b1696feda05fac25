//! Which of the values of a processor are in use.

use agent_common::volatile::Volatile;

/// What runs on a processor.
#[repr(C)]
pub(crate) struct Slots {
    /// How many triggers take a sample: one may interrupt another, but no probe does.
    pub(crate) in_event: Volatile<u32>,
}
