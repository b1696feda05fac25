//! What every destination can do.
//!
//! A destination knows its format and its protocol. When it is tried, how often, and what waits
//! meanwhile is the same for all and is the [worker](super::worker)'s.

use std::future::Future;

use super::{
    batch::{Payload, ProfileBatch},
    failure::DeliveryError,
    spool::PayloadFormat,
};

/// A place that payloads go to.
pub(super) trait Destination: Send + Sync + 'static {
    /// What its payloads are: those of others are not sent to it.
    const FORMAT: PayloadFormat;

    /// Makes a payload of a batch. May take its time, and does no input or output.
    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable>;

    /// Delivers a payload. Whoever stops queued for it may try again: what was sent in part is
    /// forgotten.
    fn send(
        &self,
        payload: &Payload,
    ) -> impl Future<Output = Result<Receipt, DeliveryError>> + Send;
}

/// A batch that has no form in the destination's format.
#[derive(Debug, thiserror::Error)]
#[error("the profile cannot be encoded")]
pub(super) struct Unencodable;

/// What a destination says of a payload that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// It has taken all of it.
    Whole,
    /// It has taken some of it, and never will the rest.
    Partial,
}
