//! What a sample costs in the kernel, and what a frame of it costs.
//!
//! The kernel counts the time of all runs of a program together, but most runs may be for idle
//! processors or other processes and end early. The cost of such a run is measured first, under the
//! same load, with the agent attached to a process that sleeps, so that every run is one of these.
//! Then
//!
//! ```text
//! run time = samples of the target × their cost + other runs × cost of those
//! ```
//!
//! has one unknown, because the BPF program counts the samples of the target.
//!
//! Invariants: what is subtracted was measured at the same rate; the first moments, when the BPF
//! program sends new code objects, are left out.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use xtask::interpreters::Interpreter;

use super::agent::{Capture, Reading, Stacks};
use super::profiler::Folded;
use super::workload::{Workload, directory};
use crate::commands::observe::stats::float;

/// Long enough for a few hundred samples, short enough that some are not disturbed by others.
const WINDOW: Duration = Duration::from_millis(500);

/// What precedes the first window.
const SETTLE: Duration = Duration::from_millis(400);

/// How long the runs for other processes are measured.
const OTHERS: Duration = Duration::from_millis(700);

/// How much longer a capture is than its windows: it must not end before they do.
const MARGIN: Duration = Duration::from_millis(300);

/// What one capture measured.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    /// Average cost of a sample in each of the windows.
    pub(super) costs_ns: Vec<f64>,
    /// Samples that were lost.
    pub(super) lost: u64,
    /// Error of the profile's CPU time against the scheduler's account, in percent.
    pub(super) cpu_error: f64,
}

/// The cost of a run that is not for the target.
pub(super) fn other_run_ns(
    agent: &Path,
    python: &Interpreter,
    rate_hz: u32,
    stacks: Stacks,
) -> Result<f64> {
    let sleeper = Workload::start(python, "asleep", None)?;
    let output = directory()?.join("asleep.folded");
    let duration = SETTLE + OTHERS + MARGIN;
    let mut capture = Capture::start(agent, sleeper.pid(), rate_hz, duration, &output, stacks)?;
    thread::sleep(SETTLE);
    let start = reading(&mut capture)?;
    thread::sleep(OTHERS);
    let end = reading(&mut capture)?;
    capture.finish()?;
    let runs = end.runs.count - start.runs.count;
    Ok(float(end.runs.time_ns - start.runs.time_ns) / float(runs.max(1)))
}

/// Samples a workload for some windows.
pub(super) fn sample(
    agent: &Path,
    workload: &Workload,
    rate_hz: u32,
    windows: u32,
    other_run_ns: f64,
    stacks: Stacks,
) -> Result<Sampled> {
    let output = directory()?.join("kernel_cost.folded");
    let duration = SETTLE + WINDOW * windows + MARGIN;
    let mut capture = Capture::start(agent, workload.pid(), rate_hz, duration, &output, stacks)?;
    let cpu_at_start = capture.target_cpu_at_start();
    thread::sleep(SETTLE);
    let mut readings = vec![reading(&mut capture)?];
    for _ in 0..windows {
        thread::sleep(WINDOW);
        readings.push(reading(&mut capture)?);
    }
    let mut cpu_at_end = cpu_at_start;
    capture.wait_for_stop(|| {
        cpu_at_end = workload.cpu_time()?;
        Ok(())
    })?;
    capture.finish()?;

    let pairs = readings.windows(2);
    let costs_ns: Vec<_> = pairs
        .filter_map(|pair| sample_ns(&pair[0], &pair[1], other_run_ns))
        .collect();
    if costs_ns.is_empty() {
        bail!("the BPF program took no samples of the workload");
    }
    let profiled = float(Folded::read(&output)?.total()) / f64::from(rate_hz);
    let used = cpu_at_end.saturating_sub(cpu_at_start).as_secs_f64();
    Ok(Sampled {
        costs_ns,
        lost: readings.last().map_or(0, |reading| reading.lost),
        cpu_error: 100.0 * (profiled / used - 1.0),
    })
}

fn reading(capture: &mut Capture) -> Result<Reading> {
    capture.reading()?.context("the capture ended too early")
}

/// Average cost of the target's samples between two readings.
fn sample_ns(start: &Reading, end: &Reading, other_run_ns: f64) -> Option<f64> {
    let samples = end.samples - start.samples;
    let runs = end.runs.count - start.runs.count;
    let others = float(runs.saturating_sub(samples));
    let time = float(end.runs.time_ns - start.runs.time_ns);
    (samples != 0).then(|| (time - others * other_run_ns) / float(samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::proc::ProgramRuns;

    #[test]
    fn runs_for_other_processes_are_subtracted() {
        let start = Reading {
            runs: ProgramRuns {
                time_ns: 1_000,
                count: 10,
            },
            samples: 5,
            lost: 0,
        };
        let end = Reading {
            runs: ProgramRuns {
                time_ns: 1_000 + 20 * 2_000 + 60 * 100,
                count: 90,
            },
            samples: 25,
            lost: 0,
        };
        assert_eq!(sample_ns(&start, &end, 100.0), Some(2_000.0));
        assert_eq!(sample_ns(&end, &end, 100.0), None);
    }
}
