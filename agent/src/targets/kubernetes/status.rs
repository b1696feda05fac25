//! Counters of the sources, for metrics.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::http_client::HttpErrorKind;

/// Counters of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `api_server`, `kubelet` or `runtime`.
    pub source: &'static str,
    /// Requests sent.
    pub requests: u64,
    /// Failed requests, by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Pods of its last list.
    pub pods: usize,
}

/// Counters shared with the task.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Vec<Status>>>);

impl Shared {
    pub(super) fn status(&self) -> Vec<Status> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Adds a source.
    pub(super) fn add(&self, source: &'static str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Status {
            source,
            ..Status::default()
        });
    }

    /// Counts a request.
    pub(super) fn count(&self, source: &'static str, result: Result<usize, HttpErrorKind>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(status) = all.iter_mut().find(|status| status.source == source) else {
            return;
        };
        status.requests += 1;
        match result {
            Ok(pods) => status.pods = pods,
            Err(kind) => *status.failures.entry(kind.as_str()).or_default() += 1,
        }
    }
}
