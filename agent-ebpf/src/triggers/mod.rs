//! The triggers of the programs, one file each.
//!
//! Invariant: no trigger that takes samples interrupts another one on the same processor, so that
//! they share one [`Sampler`](crate::values::Sampler).

pub(crate) mod clock;
pub(crate) mod cpu_hotplug;
pub(crate) mod page_faults;
pub(crate) mod processes;
