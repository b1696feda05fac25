//! Whether a profile is wanted at once, with what can be looked up in a moment.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time for the look-ups that are left: only names are looked up then.
const TIME_LEFT: Duration = Duration::from_millis(800);

/// Set by whoever waits for a profile, for whoever builds it.
#[derive(Clone, Debug, Default)]
pub struct Haste(Arc<Mutex<Option<Instant>>>);

impl Haste {
    /// A profile is wanted at once.
    pub fn begin(&self) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get_or_insert_with(Instant::now);
    }

    /// Whether only names are to be looked up.
    pub(super) fn has_begun(&self) -> bool {
        self.since().is_some()
    }

    /// Whether nothing is to be waited for any more.
    pub(super) fn is_over(&self) -> bool {
        self.since()
            .is_some_and(|since| since.elapsed() > TIME_LEFT)
    }

    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
