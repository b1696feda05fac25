//! The start of sampling.

use std::time::{Duration, Instant, SystemTime};

use crate::{aggregate::ProfileTiming, profile::CPU};

/// The start of sampling, on the monotonic clock for durations and on the wall clock for dates.
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

    /// The header of a CPU profile from the start until now, with one sample per `period`.
    pub fn about(&self, period: Duration) -> ProfileTiming {
        ProfileTiming {
            kind: &CPU,
            start: self.date,
            duration: self.at.elapsed(),
            period,
        }
    }
}
