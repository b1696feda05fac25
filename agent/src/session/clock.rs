//! When sampling began.

use std::time::{Duration, Instant, SystemTime};

use crate::aggregate::ProfileTiming;

/// When sampling began, by both clocks: the one that anybody may set tells when that was, the other
/// for how long it went on.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    pub at: Instant,
    date: SystemTime,
}

impl Began {
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            date: SystemTime::now(),
        }
    }

    /// What the profile of the time until now says about itself, with a sample per `period`.
    pub fn about(&self, period: Duration) -> ProfileTiming {
        ProfileTiming {
            start: self.date,
            duration: self.at.elapsed(),
            period,
        }
    }
}
