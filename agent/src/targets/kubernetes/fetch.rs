//! The interface of sources of pod lists.

use std::future::Future;

use tokio::task::JoinError;

use crate::{
    http_client::{HttpError, HttpErrorKind, ResponseStatus},
    targets::labels::pods::{Damaged, PodList},
};

/// Most bytes of a list; a pod takes about ten thousand.
pub const MAX_LIST_BYTES: usize = 32 << 20;

/// The status of a list that cannot be continued.
const GONE: ResponseStatus = ResponseStatus::Http(410);

/// A source of lists of the pods and containers of this node.
pub trait Fetch: Send + Sync + 'static {
    /// Its name in metrics.
    const NAME: &'static str;

    /// Whether it exists on this node.
    fn is_available(&self) -> bool {
        true
    }

    /// Requests the present list.
    fn fetch(&self) -> impl Future<Output = Result<PodList, FetchError>> + Send;

    /// What the user can do about a failure of this kind.
    fn advice(kind: HttpErrorKind) -> Option<&'static str>;
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] HttpError),
    /// A document cannot be read.
    #[error(transparent)]
    Document(#[from] Damaged),
    /// A message cannot be read.
    #[error("the response is malformed ({0})")]
    Message(#[from] prost::DecodeError),
    /// The task that parses it has failed.
    #[error("the list of pods was not parsed ({0})")]
    Unread(#[from] JoinError),
    /// It is too long.
    #[error("the list of pods is longer than {MAX_LIST_BYTES} bytes")]
    TooLong,
}

impl FetchError {
    /// The kind of failure; malformed responses count as closed connections.
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

    /// Whether the list has expired between its pages.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Request(HttpError::Status { status, .. }) if *status == GONE)
    }
}
