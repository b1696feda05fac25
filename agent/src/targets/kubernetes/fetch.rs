//! What everybody who knows pods can do.

use std::future::Future;

use tokio::task::JoinError;

use crate::{
    http_client::{HttpError, HttpErrorKind, ResponseStatus},
    targets::labels::pods::{Damaged, PodList},
};

/// Most bytes of a list; a pod takes some ten thousand.
pub const MAX_LIST_BYTES: usize = 32 << 20;

/// The status of a list that cannot be continued.
const GONE: ResponseStatus = ResponseStatus::Http(410);

/// Somebody who knows the pods and containers of this node.
pub trait Fetch: Send + Sync + 'static {
    /// What it is called in metrics.
    const NAME: &'static str;

    /// Whether there is anybody to ask.
    fn is_there(&self) -> bool {
        true
    }

    /// Gives all that it knows now.
    fn fetch(&self) -> impl Future<Output = Result<PodList, FetchError>> + Send;

    /// What somebody has to do about a failure of this kind, where that is known.
    fn advice(kind: HttpErrorKind) -> Option<&'static str>;
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] HttpError),
    /// A document cannot be read.
    #[error(transparent)]
    Document(#[from] Damaged),
    /// A message cannot be read.
    #[error("the answer is damaged ({0})")]
    Message(#[from] prost::DecodeError),
    /// Nobody has read it.
    #[error("the list of pods was not read ({0})")]
    Unread(#[from] JoinError),
    /// It is too long.
    #[error("the list of pods is longer than {MAX_LIST_BYTES} bytes")]
    TooLong,
}

impl FetchError {
    /// The kind of failure; what cannot be read is like what is cut.
    #[must_use]
    pub fn kind(&self) -> HttpErrorKind {
        match self {
            Self::Request(failure) => failure.kind(),
            Self::Document(_) | Self::Message(_) | Self::Unread(_) => {
                HttpErrorKind::ConnectionClosed
            }
            Self::TooLong => HttpErrorKind::TooLarge,
        }
    }

    /// Whether the list has changed so much since it was begun that it cannot be continued.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Request(HttpError::Status { status, .. }) if *status == GONE)
    }
}
