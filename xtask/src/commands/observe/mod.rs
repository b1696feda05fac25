//! Processes and profiles as others see them, for the bench and the soak test: programs that run
//! beside each other, the agent of a host with its metrics, what the kernel counts for them, and the
//! profiles that were written.
//!
//! Invariant: nothing of the agent's own code is used, so that an error of its own shows.

pub(super) mod child;
pub(super) mod daemon;
pub(super) mod pprof;
pub(super) mod proc;
pub(super) mod stats;
