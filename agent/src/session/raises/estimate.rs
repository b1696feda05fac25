//! How far the number of exceptions is an estimate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the samples do not have of the exceptions, and how far that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct RaiseEstimate {
    /// Time in which none was recorded, in milliseconds.
    pub(in crate::session) unrecorded_ms: u64,
    /// Variance of the number of exceptions.
    pub(in crate::session) variance: u64,
    /// By how many exceptions those differ that were raised from those in the samples, where recording has ended.
    pub(in crate::session) owed: i64,
}

/// How far the number of exceptions of a block may be from the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Uncertainty {
    /// Its variance by which of them were recorded: that of each block is another one.
    pub(super) variance: f64,
    /// Its standard error by what the probe costs: that of all blocks is the same.
    pub(super) systematic: f64,
}

/// The [`RaiseEstimate`] of the time since it was last asked for. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedEstimate(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    unrecorded_ms: u64,
    uncertainty: Uncertainty,
    owed: i64,
}

impl SharedEstimate {
    /// Adds time in which no exception was recorded, and how uncertain their number is for it.
    pub(super) fn add(&self, unrecorded_ms: u64, uncertainty: Uncertainty) {
        let mut sums = self.present();
        sums.unrecorded_ms += unrecorded_ms;
        sums.uncertainty.variance += uncertainty.variance;
        sums.uncertainty.systematic += uncertainty.systematic;
    }

    /// Sets by how many exceptions those differ that were raised from those in the samples, at the end.
    pub(super) fn end(&self, owed: i64) {
        self.present().owed = owed;
    }

    /// What was added since the last call.
    pub(super) fn take(&self) -> RaiseEstimate {
        let sums = std::mem::take(&mut *self.present());
        let Uncertainty {
            variance,
            systematic,
        } = sums.uncertainty;
        RaiseEstimate {
            unrecorded_ms: sums.unrecorded_ms,
            variance: whole(variance + systematic.powi(2)),
            owed: sums.owed,
        }
    }

    fn present(&self) -> MutexGuard<'_, Sums> {
        // It is consistent after every statement that may panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn whole(variance: f64) -> u64 {
    variance as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_each_block_the_same_way_does_not_even_out() {
        let estimate = SharedEstimate::default();
        for _ in 0..4 {
            estimate.add(
                10,
                Uncertainty {
                    variance: 100.0,
                    systematic: 10.0,
                },
            );
        }
        let taken = estimate.take();
        assert_eq!((taken.unrecorded_ms, taken.variance), (40, 400 + 1_600));
        assert_eq!(estimate.take(), RaiseEstimate::default());
    }
}
