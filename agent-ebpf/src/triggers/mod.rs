//! What makes the programs run, one file per trigger.
//!
//! Invariant: of the triggers that take samples none runs while another one does on the same
//! processor, so that they share the sample in the making.

pub(crate) mod clock;
pub(crate) mod cpu_hotplug;
pub(crate) mod processes;
