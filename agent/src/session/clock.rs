//! The start of sampling.

use std::time::{Instant, SystemTime};

use crate::{
    aggregate::ProfileTiming,
    bpf::monotonic_ns,
    profile::{CPU, Periods},
};

/// The start of sampling, on the monotonic clock for durations and on the wall clock for dates.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    pub at: Instant,
    /// In nanoseconds of the clock that the BPF programs read.
    pub monotonic_ns: u64,
    date: SystemTime,
}

impl Began {
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            monotonic_ns: monotonic_ns(),
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
