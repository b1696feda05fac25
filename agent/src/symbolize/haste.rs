//! Whether a profile is wanted at once, with what can be looked up in a moment.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time for the look-ups that are left; those that find no time have only names.
const TIME_LEFT: Duration = Duration::from_millis(1200);

/// Set by whoever waits for a profile, for whoever builds it.
#[derive(Clone, Debug, Default)]
pub struct Haste(Arc<Mutex<Option<Instant>>>);

impl Haste {
    /// A profile is wanted at once.
    pub fn begin(&self) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get_or_insert_with(Instant::now);
    }

    /// The time that is left; [`None`] where there is no haste.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let since = self.since()?;
        Some(TIME_LEFT.saturating_sub(since.elapsed()))
    }

    /// Whether nothing is to be waited for any more.
    pub(super) fn is_over(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
