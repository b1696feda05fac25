//! What every destination can do.
//!
//! A destination knows its format and its protocol. When it is tried, how often, and what waits
//! meanwhile is the same for all and is the [worker](super::worker)'s.

use std::future::Future;

use super::{
    batch::{Payload, ProfileBatch},
    failure::Failure,
    spool::Format,
};

/// A place that parcels go to.
pub(super) trait Destination: Send + Sync + 'static {
    /// What its parcels are: those of others are not sent to it.
    const FORMAT: Format;

    /// Makes a parcel of a report. May take its time, and does no input or output.
    fn pack(&self, report: &ProfileBatch) -> Result<Payload, Unencodable>;

    /// Delivers a parcel. Whoever stops waiting for it may try again: what was sent in part is
    /// forgotten.
    fn send(&self, parcel: &Payload) -> impl Future<Output = Result<Receipt, Failure>> + Send;
}

/// A report that has no form in the destination's format.
#[derive(Debug, thiserror::Error)]
#[error("the profile cannot be encoded")]
pub(super) struct Unencodable;

/// What a destination says of a parcel that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// It has taken all of it.
    Whole,
    /// It has taken some of it, and never will the rest.
    Partial,
}
