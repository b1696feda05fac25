//! How accurate a profile is: the split of the CPU time, and its amount.
//!
//! The workload measures the CPU time of each of its functions, so that the true values are known
//! for exactly the time that was profiled.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use xtask::interpreters::Interpreter;

use super::profiler::{Attached, Folded, Profiler};
use super::workload::{Workload, directory};
use crate::commands::observe::stats::{float, largest};

/// The functions of the workload in the order in which it counts their time.
const FUNCTIONS: [&str; 3] = ["seventy", "twenty", "ten"];

/// The errors of a profile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Error {
    /// The largest error of a function's share of the CPU time, in percent of all.
    pub(super) split: f64,
    /// Error of the CPU time in all against the scheduler's account, in percent.
    pub(super) cpu: f64,
}

/// Profiles the workload of the known split, which also sleeps for `sleep_percent` of its CPU time.
pub(super) fn measure(
    profiler: &Profiler,
    python: &Interpreter,
    sleep_percent: u32,
    rate_hz: u32,
    duration: Duration,
) -> Result<Error> {
    let workload = Workload::start(python, "cpu_split", Some(sleep_percent))?;
    let output = directory()?.join("cpu_split.folded");
    let attached = profiler.start(workload.pid(), rate_hz, duration, &output)?;
    let start = Truth::now(&workload)?;
    let (end, cpu) = match attached {
        Attached::Agent(capture) => {
            let cpu_at_start = capture.target_cpu_at_start();
            let mut end = start;
            capture.wait_for_stop(|| {
                end = Truth::now(&workload)?;
                Ok(())
            })?;
            capture.finish()?;
            (end, end.cpu.saturating_sub(cpu_at_start))
        }
        Attached::Other { .. } => {
            attached.finish()?;
            let end = Truth::now(&workload)?;
            // The duration is known to the millisecond, but not when it began.
            let sampled = duration.as_secs_f64() / (end.at - start.at).as_secs_f64();
            (end, end.cpu.saturating_sub(start.cpu).mul_f64(sampled))
        }
    };
    compare(&Folded::read(&output)?, rate_hz, &start, &end, cpu)
}

/// What the workload had done at one moment.
#[derive(Debug, Clone, Copy)]
struct Truth {
    at: Instant,
    cpu: Duration,
    by_function_ns: [u64; FUNCTIONS.len()],
}

impl Truth {
    fn now(workload: &Workload) -> Result<Self> {
        let counts = workload.counts()?;
        Ok(Self {
            at: Instant::now(),
            cpu: workload.cpu_time()?,
            by_function_ns: [counts[0], counts[1], counts[2]],
        })
    }
}

/// `cpu` is the true CPU time.
fn compare(
    folded: &Folded,
    rate_hz: u32,
    start: &Truth,
    end: &Truth,
    cpu: Duration,
) -> Result<Error> {
    let counts = FUNCTIONS.map(|function| folded.with_function(function));
    let samples: u64 = counts.iter().sum();
    let used: Vec<_> = end
        .by_function_ns
        .iter()
        .zip(start.by_function_ns)
        .map(|(end, start)| end - start)
        .collect();
    let used_in_all = used.iter().sum();
    let errors = counts.iter().zip(&used).map(|(&count, &used)| {
        let profiled = float(count) / float(samples);
        100.0 * (profiled - float(used) / float(used_in_all)).abs()
    });
    let split = largest(errors).filter(|error| error.is_finite());
    let profiled = float(folded.total()) / f64::from(rate_hz);
    Ok(Error {
        split: split.context("the profile has none of the workload's functions")?,
        cpu: 100.0 * (profiled / cpu.as_secs_f64() - 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_compared_with_what_happened() {
        let second = Duration::from_secs(1);
        let start = Truth {
            at: Instant::now(),
            cpu: second,
            by_function_ns: [100, 200, 300],
        };
        let end = Truth {
            at: start.at + 10 * second,
            cpu: 6 * second,
            by_function_ns: [100 + 700, 200 + 200, 300 + 100],
        };
        let folded =
            Folded::parse("main (x.py:1);seventy (x.py:2) 65\nmain (x.py:1);twenty 25\nten 10\n");
        let error = compare(&folded.unwrap(), 10, &start, &end, 5 * second).unwrap();
        assert!((error.split - 5.0).abs() < 1e-6, "{error:?}");
        assert!((error.cpu - 100.0).abs() < 1e-6, "{error:?}");
        let nothing = Folded::parse("").unwrap();
        assert!(compare(&nothing, 10, &start, &end, second).is_err());
    }
}
