//! A source of lists, with back-off after failures.

use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    fetch::{Fetch, FetchError},
    status::Shared,
};
use crate::{
    http_client::{BackOff, HttpErrorKind, Retry},
    targets::labels::pods::PodList,
};

/// A source of lists.
pub(super) struct Source<F> {
    fetch: F,
    back_off: BackOff,
    /// Earliest time of the next request.
    not_before: Option<Instant>,
    /// The kind of the last failure, if the last request failed; logged only when it changes.
    trouble: Option<HttpErrorKind>,
    /// Whether a request has ever succeeded.
    has_succeeded: bool,
    shared: Shared,
}

impl<F: Fetch> Source<F> {
    pub(super) fn new(fetch: F, shared: &Shared) -> Self {
        shared.add(F::NAME);
        Self {
            fetch,
            back_off: BackOff::new(Retry::default()),
            not_before: None,
            trouble: None,
            has_succeeded: false,
            shared: shared.clone(),
        }
    }

    /// Requests its list; [`None`] if it is absent, fails, or is in back-off.
    pub(super) async fn list(&mut self) -> Option<PodList> {
        let is_in_back_off = self.not_before.is_some_and(|time| Instant::now() < time);
        if is_in_back_off || !self.fetch.is_available() {
            return None;
        }
        let result = self.fetch.fetch().await;
        let counted = match &result {
            Ok(list) => Ok(list.count()),
            Err(error) => Err(error.kind()),
        };
        self.shared.count(F::NAME, counted);
        match result {
            Ok(list) => {
                self.recover(list.count());
                Some(list)
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn recover(&mut self, pods: usize) {
        self.back_off.reset();
        self.not_before = None;
        if self.trouble.take().is_some() || !self.has_succeeded {
            info!(source = F::NAME, pods, "metadata of pods received");
        }
        self.has_succeeded = true;
    }

    fn fail(&mut self, error: &FetchError) {
        let kind = error.kind();
        let retry_after = match error {
            FetchError::Request(failure) => failure.retry_after(),
            _ => None,
        };
        self.not_before = Some(Instant::now() + self.back_off.wait(retry_after));
        if self.trouble.replace(kind) == Some(kind) {
            return;
        }
        let advice = F::advice(kind).map(|advice| format!("; {advice}"));
        let advice = advice.unwrap_or_default();
        warn!(source = F::NAME, "no metadata of pods: {error}{advice}");
    }
}
