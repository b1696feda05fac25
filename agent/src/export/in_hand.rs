//! The payload that a worker delivers now.

use tokio::time::Instant;

use super::{batch::Payload, suspects::Failing};

/// The payload being delivered.
pub(super) struct InHand {
    pub(super) payload: Payload,
    pub(super) is_in_spool: bool,
    /// For how long it has failed, if it is a suspect.
    pub(super) suspect: Option<Failing>,
}

impl InHand {
    pub(super) fn suspect((payload, failing): (Payload, Failing)) -> Self {
        Self {
            suspect: Some(failing),
            ..Self::in_memory(payload)
        }
    }

    pub(super) fn in_memory(payload: Payload) -> Self {
        Self {
            payload,
            is_in_spool: false,
            suspect: None,
        }
    }
}

/// A payload that may itself be the cause of its failures.
pub(super) struct FailingPayload {
    pub(super) name: String,
    /// Time of its first failure.
    pub(super) since: Instant,
}
