//! How far the number of exceptions is an estimate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is not known of the number of exceptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct RaiseEstimate {
    /// Time in which none was recorded, in milliseconds.
    pub(in crate::session) unrecorded_ms: u64,
    /// Variance of the number of exceptions.
    pub(in crate::session) variance: u64,
}

/// The same of the time since it was last asked. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedEstimate(Arc<Mutex<RaiseEstimate>>);

impl SharedEstimate {
    /// Adds time in which no exception was recorded, and the variance that results from it.
    pub(super) fn add(&self, unrecorded_ms: u64, variance: u64) {
        let mut estimate = self.present();
        estimate.unrecorded_ms += unrecorded_ms;
        estimate.variance = estimate.variance.saturating_add(variance);
    }

    /// What was added since the last call.
    pub(super) fn take(&self) -> RaiseEstimate {
        std::mem::take(&mut *self.present())
    }

    fn present(&self) -> MutexGuard<'_, RaiseEstimate> {
        // It is consistent after every statement that may panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
