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
//! Redirections are not followed: they would carry credentials to a place that nobody named.
//!
//! Invariant: no text here has a secret in it.

use std::{fmt, io, path::PathBuf, time::Duration};

use super::counts::{Drop, Failures};

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// There is no connection.
    #[error("cannot connect to {address} ({source})")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the kernel or the resolver said.
        source: io::Error,
    },
    /// There is no agreement on TLS.
    #[error("cannot agree on TLS with {address} ({source})")]
    Tls {
        /// Host and port.
        address: String,
        /// What rustls said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no answer.
    #[error("no answer within {} s", limit.as_secs_f64())]
    TimedOut {
        /// For how long it was waited for.
        limit: Duration,
    },
    /// The connection ended too early, or what came is not HTTP.
    #[error("the connection was cut ({})", Chain(source))]
    Cut {
        /// What hyper said.
        source: hyper::Error,
    },
    /// An answer longer than any that makes sense.
    #[error("the answer is longer than {limit} bytes")]
    LongAnswer {
        /// What would have been read.
        limit: usize,
    },
    /// An answer that says no.
    #[error("the answer was {code}: {message}")]
    Answered {
        /// What it means.
        kind: Kind,
        /// What it was.
        code: Code,
        /// The words beside it.
        message: String,
        /// How long to wait, where it says so.
        retry_after: Option<Duration>,
    },
    /// A file with credentials or certificates cannot be read.
    #[error("cannot use '{}' ({source})", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
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

/// An error and what it came from: hyper keeps the reason to itself.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(formatter, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// A status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// Of HTTP.
    Http(u16),
    /// Of gRPC.
    Grpc(u32),
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(formatter, "HTTP status {status}"),
            Self::Grpc(status) => write!(formatter, "gRPC status {status}"),
        }
    }
}

/// Failures that are alike in what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There was no connection to be had.
    Unreachable,
    /// There was no agreement on TLS.
    Tls,
    /// There was no answer in time.
    TimedOut,
    /// The connection ended too early.
    Cut,
    /// The destination failed inside.
    ServerError,
    /// The destination is not there at present.
    Unavailable,
    /// The destination wants less.
    Throttled,
    /// The credentials were refused.
    Unauthorized,
    /// The credentials are known, and do not do.
    Forbidden,
    /// The credentials could not be read.
    Credentials,
    /// A disk failed or was full.
    Disk,
    /// The destination will never take it.
    Rejected,
    /// It is too large.
    TooLarge,
    /// The destination does not know the request.
    Unsupported,
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
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } => Kind::Unreachable,
            Self::Tls { .. } => Kind::Tls,
            Self::TimedOut { .. } => Kind::TimedOut,
            Self::Cut { .. } | Self::LongAnswer { .. } => Kind::Cut,
            Self::Answered { kind, .. } => *kind,
            Self::Credentials { .. } => Kind::Credentials,
            Self::Disk { .. } => Kind::Disk,
            Self::TooLarge { .. } => Kind::TooLarge,
        }
    }

    /// How long the destination wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answered { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl Kind {
    /// What a status of HTTP means that is not a success.
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            401 | 407 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 | 405 | 501 => Self::Unsupported,
            408 | 425 | 502..=504 => Self::Unavailable,
            413 => Self::TooLarge,
            429 => Self::Throttled,
            500.. => Self::ServerError,
            _ => Self::Rejected,
        }
    }

    pub(super) fn next(self) -> Next {
        match self {
            Self::Unreachable
            | Self::Tls
            | Self::Unavailable
            | Self::Throttled
            | Self::Unauthorized
            | Self::Credentials
            | Self::Disk => Next::Retry,
            Self::TimedOut | Self::Cut | Self::ServerError | Self::Forbidden => {
                Next::RetryWithLimit
            }
            Self::Rejected => Next::Drop(Drop::Rejected),
            Self::TooLarge => Next::Drop(Drop::TooLarge),
            Self::Unsupported => Next::Drop(Drop::Unsupported),
        }
    }
}

impl Failures {
    /// Counts one.
    pub(super) fn add(&mut self, kind: Kind) {
        *match kind {
            Kind::Unreachable => &mut self.unreachable,
            Kind::Tls => &mut self.tls,
            Kind::TimedOut => &mut self.timed_out,
            Kind::Cut => &mut self.cut,
            Kind::ServerError => &mut self.server_error,
            Kind::Unavailable => &mut self.unavailable,
            Kind::Throttled => &mut self.throttled,
            Kind::Unauthorized | Kind::Forbidden => &mut self.unauthorized,
            Kind::Credentials => &mut self.credentials,
            Kind::Disk => &mut self.disk,
            Kind::Rejected => &mut self.rejected,
            Kind::TooLarge => &mut self.too_large,
            Kind::Unsupported => &mut self.unsupported,
        } += 1;
    }
}
