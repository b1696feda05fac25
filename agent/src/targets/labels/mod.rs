//! Labels: under which series the profiles of a process are stored.
//!
//! ```text
//! process ─► metadata ─────┐
//! pods ─► container info ──┴─► labels + `__meta_` labels ─► relabel ─► Labels
//! ```
//!
//! A profile is pushed for each set of labels, so each label that differs between processes
//! multiplies the series: the id and the name of a process are left out by default.
//!
//! [`Selector`] decides by the same metadata what is profiled.
//!
//! Invariants: a label has a name of letters, digits and `_`, and a value; everything that comes
//! from a process is untrusted and bounded; arguments and environment variables of a process do not
//! get into labels, except those named in [`service`] and, if configured, the command line.

pub mod attributes;
pub mod host;
mod labeller;
mod meta;
pub mod metadata;
mod names;
pub mod pods;
pub mod relabel;
pub mod selector;
pub mod service;
mod set;
mod subject;
#[cfg(test)]
mod tests;

pub use self::{
    labeller::Labeller,
    names::{attribute_name, is_name},
    selector::{Selector, Unmatched},
    set::Labels,
    subject::Subject,
};
