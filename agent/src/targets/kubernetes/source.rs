//! Somebody who is asked, and left alone after failures.

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

/// Somebody who is asked.
pub(super) struct Source<F> {
    fetch: F,
    back_off: BackOff,
    /// Before when it is not asked again.
    not_before: Option<Instant>,
    /// How it failed the last time, if it did; told of only when that changes.
    trouble: Option<HttpErrorKind>,
    /// Whether it has ever answered.
    is_known: bool,
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
            is_known: false,
            shared: shared.clone(),
        }
    }

    /// Its list; [`None`] if it is not there, failed, or has failed so lately that it is left
    /// alone.
    pub(super) async fn ask(&mut self) -> Option<PodList> {
        let is_left_alone = self.not_before.is_some_and(|time| Instant::now() < time);
        if is_left_alone || !self.fetch.is_there() {
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
        if self.trouble.take().is_some() || !self.is_known {
            info!(source = F::NAME, pods, "pods are named");
        }
        self.is_known = true;
    }

    fn fail(&mut self, error: &FetchError) {
        let kind = error.kind();
        let asked_to_wait = match error {
            FetchError::Request(failure) => failure.retry_after(),
            _ => None,
        };
        self.not_before = Some(Instant::now() + self.back_off.wait(asked_to_wait));
        if self.trouble.replace(kind) == Some(kind) {
            return;
        }
        let advice = F::advice(kind).map(|advice| format!("; {advice}"));
        let advice = advice.unwrap_or_default();
        warn!(source = F::NAME, "pods are not named: {error}{advice}");
    }
}
