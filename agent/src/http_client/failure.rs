//! Why a request failed.
//!
//! Redirections are not followed: they could send credentials to an address that is not configured.
//!
//! Invariant: no message contains a secret.

use std::{fmt, io, path::PathBuf, time::Duration};

use super::tls_advice;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error("cannot connect to {address} ({source})")]
    Unreachable {
        /// Host and port.
        address: String,
        /// Error of the kernel or the resolver.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {address} failed ({source})")]
    Tls {
        /// Host and port.
        address: String,
        /// Error of rustls.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No response in time.
    #[error("no response within {} s", limit.as_secs_f64())]
    TimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// The connection was closed before the response was complete, or the response is not HTTP.
    #[error("the connection failed ({})", Chain(source))]
    ConnectionClosed {
        /// Error of hyper.
        source: hyper::Error,
    },
    /// The response exceeds the limit.
    #[error("the response is longer than {limit} bytes")]
    ResponseTooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The server responded with an error.
    #[error("the server responded with {status}: {message}")]
    Status {
        /// Meaning of the status.
        kind: HttpErrorKind,
        /// Status of the response.
        status: ResponseStatus,
        /// Text of the response.
        message: String,
        /// Value of `Retry-After`, if present.
        retry_after: Option<Duration>,
    },
    /// A file with credentials or certificates cannot be read.
    #[error("cannot use '{}' ({source})", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Error of the operation, or what is wrong with the content.
        source: io::Error,
    },
}

/// An error with its sources: the messages of hyper do not contain the cause.
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

/// Status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStatus {
    /// HTTP status code.
    Http(u16),
    /// gRPC status code.
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

/// Kinds of errors, by what a caller does about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpErrorKind {
    /// No connection.
    Unreachable,
    /// TLS handshake failed, or a certificate was rejected.
    Tls,
    /// No response in time.
    TimedOut,
    /// The connection was closed too early, or the response is malformed.
    ConnectionClosed,
    /// The server reported an internal error.
    ServerError,
    /// The server is unavailable at present.
    Unavailable,
    /// The server limits the rate.
    Throttled,
    /// The credentials were rejected.
    Unauthorized,
    /// The credentials are valid, but do not grant access.
    Forbidden,
    /// The credentials cannot be read.
    Credentials,
    /// The server rejects the request permanently.
    Rejected,
    /// The request is too large.
    TooLarge,
    /// The server does not implement the request.
    Unsupported,
}

impl HttpError {
    #[must_use]
    pub fn kind(&self) -> HttpErrorKind {
        match self {
            Self::Unreachable { .. } => HttpErrorKind::Unreachable,
            Self::Tls { .. } => HttpErrorKind::Tls,
            Self::TimedOut { .. } => HttpErrorKind::TimedOut,
            Self::ConnectionClosed { .. } | Self::ResponseTooLong { .. } => {
                HttpErrorKind::ConnectionClosed
            }
            Self::Status { kind, .. } => *kind,
            Self::Credentials { .. } => HttpErrorKind::Credentials,
        }
    }

    /// What to do, by the keys of the configuration of an exporter: a clause that follows the message, or nothing.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Tls { source, .. } => tls_advice::advice(&**source),
            Self::Status {
                kind: HttpErrorKind::Unsupported,
                ..
            } => {
                "; check the `type` of the exporter, and that its `url` is the collector's address, without the paths of \
                 its API"
            }
            _ => "",
        }
    }

    /// Value of `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl HttpErrorKind {
    /// Name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::TimedOut => "timed_out",
            Self::ConnectionClosed => "connection_closed",
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

    /// Kind of an HTTP status that is not a success.
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
