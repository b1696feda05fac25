//! Samples of a window → profiles.
//!
//! Samples are counted by the hashes of their stacks, by thread, by the status of their walks and by what
//! the thread waited for; see [`agent_common::hash`] for what a hash collision does. Python and native
//! stacks are interleaved when the profile is built. Stacks with equal locations, that is with Python
//! frames at the same lines and native frames at the same addresses, are one stack of the profile, in
//! all processes.
//!
//! Invariants: a thread is identified by its process and its id, because the id of a thread that has
//! ended may be reused by another process; every sample that was counted is in the profile or in
//! [`Profile::filtered_out`](crate::profile::Profile::filtered_out).

mod builder;
mod catalog;
mod filter;
#[cfg(test)]
pub mod fixtures;
mod idle;
mod import_errors;
mod interleave;
mod interner;
mod key;
mod preemption;
mod python_frames;
mod resting;
mod scaling;
mod shown_tasks;
#[cfg(test)]
mod tests;
mod unwind_tally;
mod window;
mod window_times;
mod windows;

pub use self::{
    builder::ProfileTiming,
    catalog::Catalog,
    filter::{Filter, NoSuchThread, ThreadFilter},
    interleave::{incomplete_marker, unwind_marker},
    interner::{Interner, index},
    key::Blocked,
    window::Window,
    windows::Windows,
};
