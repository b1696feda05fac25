//! Samples of some time → a profile.
//!
//! Samples are counted by the hashes of their stacks, by thread and by how the walks ended; what a
//! collision of hashes does is told in [`agent_common::hash`]. The stacks of Python and of native
//! frames are joined when the profile is made. Stacks that read the same in words, because their
//! Python frames stand on the same lines and their native ones at the same addresses, are one stack
//! of the profile, whichever processes they are of.
//!
//! Invariants: a thread is known by its process and its id, for the id of a thread that has ended
//! can become that of another process's; every sample that was counted is in the profile or in
//! [`Profile::left_out`].

mod aggregator;
mod builder;
mod filter;
mod interleave;
mod interner;
mod key;
mod python_frames;
#[cfg(test)]
mod tests;
mod unwind_tally;
mod window;

pub use self::{
    aggregator::Aggregator,
    builder::ProfileTiming,
    filter::{Filter, ThreadFilter},
    interner::{Interner, index},
    window::Window,
};
