//! What the agent of a host has kept in its folder: found, listed and merged again.
//!
//! Files are chosen by the time and the service in their names before one is opened, then by their
//! labels before their stacks are read. One is in memory at a time, and what is merged has a bound.
//!
//! Invariants: nothing is written; no link is followed; a file that makes no sense is left out and
//! named, and costs the others nothing; one that is gone by now, as the agent removes the oldest, is
//! no matter.

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

pub use self::{
    read::{Merged, Store},
    selection::Selection,
    skipped::SkippedFiles,
};
