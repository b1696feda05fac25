//! The triggers of the programs, one file each.
//!
//! Invariant: no trigger that takes samples interrupts another one on the same processor, so that they share one
//! [`Sampler`](crate::values::Sampler). The kernel runs no program of a perf event while it runs another one on the
//! processor; a tick of the clock that comes in the middle of a page fault's sample is one that the
//! [`SampleClock`](agent_common::sample_clock::SampleClock) misses. The programs on tracepoints of the scheduler,
//! [`lock_releases`] and [`switches`], run where interrupts are disabled. A probe, as in [`exceptions`],
//! [`allocations`] and [`announced_allocations`], is interrupted by all of them, and by other threads: it has values of
//! its own.

pub(crate) mod allocations;
pub(crate) mod announced_allocations;
pub(crate) mod clock;
pub(crate) mod copy_on_write;
pub(crate) mod cpu_hotplug;
pub(crate) mod exceptions;
pub(crate) mod growth;
pub(crate) mod lock_releases;
pub(crate) mod major_faults;
pub(crate) mod moves;
pub(crate) mod page_faults;
pub(crate) mod processes;
pub(crate) mod switches;
pub(crate) mod thread_loops;
mod threads;
