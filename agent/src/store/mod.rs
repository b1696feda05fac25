//! The folder of profiles: names, rotation, listing, merging.
//!
//! Files are selected by the time and the service in their names before any is opened, then by their
//! labels before their stacks are read. One is in memory at a time, and the merged profile is bounded.
//!
//! Invariants: reading writes nothing; no link is followed; an invalid file is skipped and named, and
//! does not affect the others; a file that was removed meanwhile, as the agent removes the oldest, is
//! not an error.

mod error;
pub(crate) mod folder;
mod listing;
mod merge;
pub(crate) mod name;
mod read;
pub(crate) mod rotation;
mod selection;
mod series;
mod skipped;
#[cfg(test)]
mod tests;

pub(crate) use self::{error::StoreError, merge::Merger};
pub use self::{
    read::{Merged, Store},
    selection::Selection,
    skipped::{SkipReason, SkippedFiles},
};
