//! Why an attempt to deliver failed, and what follows from it.
//!
//! | what happened | what follows |
//! |---|---|
//! | no connection, no TLS, 408, 425, 502, 503, 504 | tried again |
//! | 429 | tried again |
//! | 401, 407, unreadable credentials | tried again; credentials are read at each attempt |
//! | no answer in time, another 5xx, 403, a connection that is cut | tried again, not for ever |
//! | 413 | dropped as too large |
//! | 404, 405, 501 | dropped: it is the address that is wrong, and a spool would only fill |
//! | a redirection, any other 4xx | dropped as rejected |
//!
//! Nothing is tried again before `Retry-After`, within reason. What is not tried for ever may have
//! failed for what is in the parcel, be it that a firewall did not like it; what is tried for ever
//! cannot have.
//!
//! Invariant: no text here has a secret in it.

use std::{io, time::Duration};

use super::counts::{Drop, Failures};
use crate::http_client::{self, Kind};

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The request did.
    #[error(transparent)]
    Request(#[from] http_client::Failure),
    /// A disk does not take it.
    #[error("cannot write '{name}' ({source})")]
    Disk {
        /// What was to be written.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// More than the destination can ever hold.
    #[error("'{name}' has {size_bytes} bytes, and there is only room for {limit_bytes}")]
    TooLarge {
        /// What was to be written.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// The room.
        limit_bytes: u64,
    },
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is tried again, for ever.
    Retry,
    /// It is tried again, but the parcel itself may be the reason: not for ever.
    RetryWithLimit,
    /// It is given up at once.
    Drop(Drop),
}

impl Failure {
    /// How long the destination wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(failure) => failure.retry_after(),
            Self::Disk { .. } | Self::TooLarge { .. } => None,
        }
    }

    /// What other failures it is like; [`None`] for those of disks, which are like each other.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Request(failure) => Some(failure.kind()),
            Self::Disk { .. } => None,
            Self::TooLarge { .. } => Some(Kind::TooLarge),
        }
    }

    pub(super) fn next(&self) -> Next {
        let Some(kind) = self.kind() else {
            return Next::Retry;
        };
        match kind {
            Kind::Unreachable
            | Kind::Tls
            | Kind::Unavailable
            | Kind::Throttled
            | Kind::Unauthorized
            | Kind::Credentials => Next::Retry,
            Kind::TimedOut | Kind::ConnectionClosed | Kind::ServerError | Kind::Forbidden => {
                Next::RetryWithLimit
            }
            Kind::Rejected => Next::Drop(Drop::Rejected),
            Kind::TooLarge => Next::Drop(Drop::TooLarge),
            Kind::Unsupported => Next::Drop(Drop::Unsupported),
        }
    }
}

impl Failures {
    /// Counts one.
    pub(super) fn add(&mut self, failure: &Failure) {
        let Some(kind) = failure.kind() else {
            self.disk += 1;
            return;
        };
        *match kind {
            Kind::Unreachable => &mut self.unreachable,
            Kind::Tls => &mut self.tls,
            Kind::TimedOut => &mut self.timed_out,
            Kind::ConnectionClosed => &mut self.cut,
            Kind::ServerError => &mut self.server_error,
            Kind::Unavailable => &mut self.unavailable,
            Kind::Throttled => &mut self.throttled,
            Kind::Unauthorized | Kind::Forbidden => &mut self.unauthorized,
            Kind::Credentials => &mut self.credentials,
            Kind::Rejected => &mut self.rejected,
            Kind::TooLarge => &mut self.too_large,
            Kind::Unsupported => &mut self.unsupported,
        } += 1;
    }
}
