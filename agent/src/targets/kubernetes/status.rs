//! How those who are asked are doing, for whoever publishes metrics.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::http_client::HttpErrorKind;

/// How one of those who are asked is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What it is called: `api_server`, `kubelet` or `runtime`.
    pub source: &'static str,
    /// How often it was asked.
    pub requests: u64,
    /// How often that failed, by the name of the kind of failure.
    pub failures: BTreeMap<&'static str, u64>,
    /// Pods of its last list.
    pub pods: usize,
}

/// What the task tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Vec<Status>>>);

impl Shared {
    pub(super) fn status(&self) -> Vec<Status> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Somebody will be asked.
    pub(super) fn add(&self, source: &'static str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Status {
            source,
            ..Status::default()
        });
    }

    /// Somebody was asked, and gave so many pods or failed.
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
