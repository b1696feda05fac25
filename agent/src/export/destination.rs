//! The interface of a destination: its format and its protocol.
//!
//! Queueing, spooling and retries are the same for all: see the [worker](super::worker).

use std::future::Future;

use super::{
    batch::{Payload, ProfileBatch, Unencodable},
    failure::DeliveryError,
    spool::PayloadFormat,
};

/// Where profiles are delivered to.
pub(super) trait Destination: Send + Sync + 'static {
    /// Format of its payloads: a spooled payload of another format is not sent.
    const FORMAT: PayloadFormat;

    /// Most payloads that are sent at the same time.
    const MAX_REQUESTS: usize = 1;

    /// Encodes a batch. CPU-bound, without I/O.
    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable>;

    /// Delivers a payload. Cancel-safe: a payload that was sent in part may be sent again.
    fn send(
        &self,
        payload: &Payload,
    ) -> impl Future<Output = Result<Receipt, DeliveryError>> + Send;

    /// Delivered profiles that were removed because the disk was full, since the last call.
    fn take_removed(&self) -> u64 {
        0
    }
}

/// How much of a delivered payload the destination accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    Complete,
    /// The rest is rejected permanently.
    Partial,
}
