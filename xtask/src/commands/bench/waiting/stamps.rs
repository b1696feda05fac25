//! What the program itself counts, as `xtask/bench/waits.py` says.

use std::time::Instant;

use anyhow::Result;

use super::super::workload::Workload;
use crate::commands::observe::stats::float;

/// The functions, in the order of the numbers of each thread.
pub(super) const FUNCTIONS: [&str; 7] = [
    "computes",
    "hashes",
    "sleeps_long",
    "sleeps_shortly",
    "takes_lock",
    "keeps_lock",
    "reads_socket",
];

/// The one that holds the interpreter's lock.
pub(super) const HOLDS_GIL: usize = 0;

/// Numbers of a thread, the last of which is the CPU time in [`HOLDS_GIL`].
const OF_THREAD: usize = FUNCTIONS.len() + 1;

/// The number of what has been finished.
const UNITS: usize = 63;

/// What a program did in a second, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stamps {
    /// Seconds of all threads in each function.
    pub(super) elapsed: [f64; FUNCTIONS.len()],
    /// CPU seconds with the interpreter's lock.
    pub(super) with_gil: f64,
    pub(super) units: f64,
}

/// The numbers at a moment.
#[derive(Debug)]
pub(super) struct Moment {
    at: Instant,
    counts: Vec<u64>,
}

impl Moment {
    pub(super) fn now(workload: &Workload) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            counts: workload.counts()?.to_vec(),
        })
    }

    /// What was done from then to a later moment.
    pub(super) fn until(&self, end: &Self) -> Stamps {
        let seconds = (end.at - self.at).as_secs_f64();
        let rise = |number: usize| {
            let [before, after] = [&self.counts, &end.counts].map(|counts| counts[number]);
            float(after.saturating_sub(before)) / seconds
        };
        let of_threads = |number: usize| {
            let numbers = (number..UNITS).step_by(OF_THREAD);
            numbers.map(rise).sum::<f64>() / 1e9
        };
        let mut elapsed = [0.0; FUNCTIONS.len()];
        for (number, seconds) in elapsed.iter_mut().enumerate() {
            *seconds = of_threads(number);
        }
        Stamps {
            elapsed,
            with_gil: of_threads(OF_THREAD - 1),
            units: rise(UNITS),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_of_all_threads_are_added() {
        let at = Instant::now();
        let start = Moment {
            at,
            counts: vec![0; 64],
        };
        let mut counts = vec![0; 64];
        counts[1] = 500_000_000;
        counts[8 + 1] = 1_500_000_000;
        counts[7] = 250_000_000;
        counts[UNITS] = 30;
        let end = Moment {
            at: at + Duration::from_secs(2),
            counts,
        };
        let stamps = start.until(&end);
        assert_eq!(stamps.elapsed.to_vec(), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((stamps.with_gil, stamps.units), (0.125, 15.0));
    }
}
