//! Why a delivery attempt failed, and whether it is retried.
//!
//! | failure | decision |
//! |---|---|
//! | no connection, TLS handshake, 408, 425, 502, 503, 504 | retry |
//! | 429 | retry |
//! | 401, 407, unreadable credentials | retry; credentials are read at each attempt |
//! | timeout, other 5xx, 403, connection closed early | retry up to `max_elapsed` |
//! | 413 | drop as too large |
//! | 404, 405, 501 | drop: the address is wrong, and the spool would only fill up |
//! | redirection, other 4xx | drop as rejected |
//!
//! `Retry-After` is respected up to an hour. Retries are limited where the payload itself may be the
//! cause, for example because a firewall rejects it.
//!
//! Invariant: no message contains a secret.

use std::{io, time::Duration};

use super::counts::{DropReason, Failures};
use crate::http_client::{self, HttpErrorKind};

/// Why a delivery attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    /// The request failed.
    #[error("{}{}", .0, .0.advice())]
    Request(#[from] http_client::HttpError),
    /// A file cannot be written.
    #[error("cannot write '{name}' ({source})")]
    Disk {
        /// Path of the file.
        name: String,
        /// Error of the operation.
        source: io::Error,
    },
    /// The payload alone exceeds the destination's limit.
    #[error("'{name}' has {size_bytes} bytes: the limit is {max_bytes}")]
    TooLarge {
        /// Path of the file.
        name: String,
        /// Size on disk, in bytes.
        size_bytes: u64,
        /// The limit, in bytes.
        max_bytes: u64,
    },
}

/// What is done with a payload after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Retry without limit.
    Retry,
    /// Retry up to `max_elapsed`: the payload itself may be the cause.
    RetryWithLimit,
    /// Drop at once.
    Drop(DropReason),
}

impl DeliveryError {
    /// Value of `Retry-After`.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(failure) => failure.retry_after(),
            Self::Disk { .. } | Self::TooLarge { .. } => None,
        }
    }

    /// Kind of failure; [`None`] for disk errors.
    pub(super) fn kind(&self) -> Option<HttpErrorKind> {
        match self {
            Self::Request(failure) => Some(failure.kind()),
            Self::Disk { .. } => None,
            Self::TooLarge { .. } => Some(HttpErrorKind::TooLarge),
        }
    }

    pub(super) fn decision(&self) -> Decision {
        let Some(kind) = self.kind() else {
            return Decision::Retry;
        };
        match kind {
            HttpErrorKind::Unreachable
            | HttpErrorKind::Tls
            | HttpErrorKind::Unavailable
            | HttpErrorKind::Throttled
            | HttpErrorKind::Unauthorized
            | HttpErrorKind::Credentials => Decision::Retry,
            HttpErrorKind::TimedOut
            | HttpErrorKind::ConnectionClosed
            | HttpErrorKind::ServerError
            | HttpErrorKind::Forbidden => Decision::RetryWithLimit,
            HttpErrorKind::Rejected => Decision::Drop(DropReason::Rejected),
            HttpErrorKind::TooLarge => Decision::Drop(DropReason::TooLarge),
            HttpErrorKind::Unsupported => Decision::Drop(DropReason::Unsupported),
        }
    }
}

impl Failures {
    pub(super) fn add(&mut self, failure: &DeliveryError) {
        let Some(kind) = failure.kind() else {
            self.disk += 1;
            return;
        };
        *match kind {
            HttpErrorKind::Unreachable => &mut self.unreachable,
            HttpErrorKind::Tls => &mut self.tls,
            HttpErrorKind::TimedOut => &mut self.timed_out,
            HttpErrorKind::ConnectionClosed => &mut self.connection_closed,
            HttpErrorKind::ServerError => &mut self.server_error,
            HttpErrorKind::Unavailable => &mut self.unavailable,
            HttpErrorKind::Throttled => &mut self.throttled,
            HttpErrorKind::Unauthorized | HttpErrorKind::Forbidden => &mut self.unauthorized,
            HttpErrorKind::Credentials => &mut self.credentials,
            HttpErrorKind::Rejected => &mut self.rejected,
            HttpErrorKind::TooLarge => &mut self.too_large,
            HttpErrorKind::Unsupported => &mut self.unsupported,
        } += 1;
    }
}
