//! Why an attempt to deliver failed, and what follows from it.
//!
//! | what happened | what follows |
//! |---|---|
//! | no connection, no TLS, 408, 425, 502, 503, 504 | tried again |
//! | 429 | tried again |
//! | 401, 407, unreadable credentials | tried again; credentials are read at each attempt |
//! | no response in time, another 5xx, 403, a connection that is cut | tried again, not for ever |
//! | 413 | dropped as too large |
//! | 404, 405, 501 | dropped: it is the address that is wrong, and a spool would only fill |
//! | a redirection, any other 4xx | dropped as rejected |
//!
//! Nothing is tried again before `Retry-After`, within reason. What is not tried for ever may have
//! failed for what is in the payload, be it that a firewall did not like it; what is tried for ever
//! cannot have.
//!
//! Invariant: no text here has a secret in it.

use std::{io, time::Duration};

use super::counts::{DropReason, Failures};
use crate::http_client::{self, HttpErrorKind};

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    /// The request did.
    #[error(transparent)]
    Request(#[from] http_client::HttpError),
    /// A disk does not take it.
    #[error("cannot write '{name}' ({source})")]
    Disk {
        /// What was to be written.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// More than the destination can ever hold.
    #[error("'{name}' has {size_bytes} bytes, and there is only room for {max_bytes}")]
    TooLarge {
        /// What was to be written.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// The room.
        max_bytes: u64,
    },
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is tried again, for ever.
    Retry,
    /// It is tried again, but the payload itself may be the reason: not for ever.
    RetryWithLimit,
    /// It is given up at once.
    Drop(DropReason),
}

impl DeliveryError {
    /// How long the destination wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(failure) => failure.retry_after(),
            Self::Disk { .. } | Self::TooLarge { .. } => None,
        }
    }

    /// What other failures it is like; [`None`] for those of disks, which are like each other.
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
    /// Counts one.
    pub(super) fn add(&mut self, failure: &DeliveryError) {
        let Some(kind) = failure.kind() else {
            self.disk += 1;
            return;
        };
        *match kind {
            HttpErrorKind::Unreachable => &mut self.unreachable,
            HttpErrorKind::Tls => &mut self.tls,
            HttpErrorKind::TimedOut => &mut self.timed_out,
            HttpErrorKind::ConnectionClosed => &mut self.cut,
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
