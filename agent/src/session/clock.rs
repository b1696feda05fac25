//! The start of sampling.

use std::time::{Instant, SystemTime};

use crate::{
    aggregate::ProfileTiming,
    profile::{CPU, Periods},
};

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

    /// The header of a CPU profile from the start until now, with samples so far apart.
    pub fn about(&self, periods: Periods) -> ProfileTiming {
        ProfileTiming {
            kind: &CPU,
            start: self.date,
            duration: self.at.elapsed(),
            periods,
        }
    }
}
