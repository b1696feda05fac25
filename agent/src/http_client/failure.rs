//! Why a request failed.
//!
//! Redirections are not followed: they would carry credentials to a place that nobody named.
//!
//! Invariant: no text here has a secret in it.

use std::{fmt, io, path::PathBuf, time::Duration};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
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
    ConnectionClosed {
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
    #[error("the answer was {status}: {message}")]
    Status {
        /// What it means.
        kind: HttpErrorKind,
        /// What it was.
        status: ResponseStatus,
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
pub enum ResponseStatus {
    /// Of HTTP.
    Http(u16),
    /// Of gRPC.
    Grpc(u32),
}

impl fmt::Display for ResponseStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(formatter, "HTTP status {status}"),
            Self::Grpc(status) => write!(formatter, "gRPC status {status}"),
        }
    }
}

/// Failures that are alike in what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// There was no connection to be had.
    Unreachable,
    /// There was no agreement on TLS.
    Tls,
    /// There was no answer in time.
    TimedOut,
    /// The connection ended too early.
    ConnectionClosed,
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
    /// The destination will never take it.
    Rejected,
    /// It is too large.
    TooLarge,
    /// The destination does not know the request.
    Unsupported,
}

impl HttpError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> HttpErrorKind {
        match self {
            Self::Unreachable { .. } => HttpErrorKind::Unreachable,
            Self::Tls { .. } => HttpErrorKind::Tls,
            Self::TimedOut { .. } => HttpErrorKind::TimedOut,
            Self::ConnectionClosed { .. } | Self::LongAnswer { .. } => {
                HttpErrorKind::ConnectionClosed
            }
            Self::Status { kind, .. } => *kind,
            Self::Credentials { .. } => HttpErrorKind::Credentials,
        }
    }

    /// How long the other side wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl HttpErrorKind {
    /// Its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::TimedOut => "timed_out",
            Self::ConnectionClosed => "cut",
            Self::ServerError => "server_error",
            Self::Unavailable => "unavailable",
            Self::Throttled => "throttled",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Credentials => "credentials",
            Self::Rejected => "rejected",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
        }
    }

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
}
