//! The kernel time of recorded samples.
//!
//! The run time of the sampling program is that of all runs, also of those that recorded nothing
//! because a processor was idle or ran something else. All of it is divided by the recorded samples:
//! that is what profiling this program costs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::agent::{Capture, Probe, Reading};
use super::super::workload::{Workload, directory};
use super::case::{Case, Scope};
use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::stats::{float, least, median};

/// What precedes the measured time: the process is found, its code and its stack have been sent.
const SETTLE: Duration = Duration::from_millis(1500);

/// How many windows of a measurement are averaged, each by itself.
const WINDOWS: u32 = 4;

/// What was counted in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    time_ns: u64,
    runs: u64,
    samples: u64,
}

/// The windows of a case.
#[derive(Debug, Default, Clone)]
pub(super) struct Cost(Vec<Window>);

/// An agent that samples.
enum Sampling {
    Capture(Capture),
    Host { _daemon: Daemon, probe: Probe },
}

impl Sampling {
    fn start(agent: &Path, workload: &Workload, case: Case, duration: Duration) -> Result<Self> {
        let pid = workload.pid();
        match case.scope {
            Scope::Process => {
                let output = directory()?.join("samples.pb.gz");
                let (rate_hz, stacks) = (case.rate_hz, case.stacks);
                let capture = Capture::start(agent, pid, rate_hz, duration, &output, stacks)?;
                Ok(Self::Capture(capture))
            }
            Scope::Host => {
                let mut daemon = Daemon::start(agent, &directory()?, &host_options(case, pid))?;
                let probe = Probe::wait_for(daemon.running())?;
                Ok(Self::Host {
                    _daemon: daemon,
                    probe,
                })
            }
        }
    }

    fn reading(&mut self) -> Result<Reading> {
        let reading = match self {
            Self::Capture(capture) => capture.reading(),
            Self::Host { probe, .. } => probe.reading(),
        };
        reading?.context("the sampling ended too early")
    }
}

/// The options of `agent run`.
fn host_options(case: Case, pid: u32) -> Vec<String> {
    let mut options = vec![
        "--rate".to_owned(),
        case.rate_hz.to_string(),
        "--include".to_owned(),
        format!("[{{pid: {pid}}}]"),
        // Whatever else the agent does must not change the rate.
        "--max-cpu".to_owned(),
        "100".to_owned(),
    ];
    options.extend(case.stacks.host_flag().map(str::to_owned));
    options
}

/// Measures a case, for so many times its usual duration.
pub(super) fn measure(
    agent: &Path,
    workload: &Workload,
    case: Case,
    times: u32,
    cost: &mut Cost,
) -> Result<()> {
    let window = case.duration() * times / WINDOWS;
    // It must not end before the windows do, and ends when it is dropped.
    let duration = SETTLE + 2 * case.duration() * times;
    let mut sampling = Sampling::start(agent, workload, case, duration)?;
    thread::sleep(SETTLE);
    let mut before = sampling.reading()?;
    for _ in 0..WINDOWS {
        thread::sleep(window);
        let after = sampling.reading()?;
        cost.0.push(Window::between(&before, &after));
        before = after;
    }
    Ok(())
}

impl Window {
    fn between(before: &Reading, after: &Reading) -> Self {
        Self {
            time_ns: after.runs.time_ns - before.runs.time_ns,
            runs: after.runs.count - before.runs.count,
            samples: after.samples - before.samples,
        }
    }
}

impl Cost {
    fn windows_us(&self) -> impl Iterator<Item = f64> {
        let sampled = self.0.iter().filter(|window| window.samples != 0);
        sampled.map(|window| float(window.time_ns) / float(window.samples) / 1e3)
    }

    /// Microseconds per recorded sample: the median of the windows.
    pub(super) fn sample_us(&self) -> Option<f64> {
        median(self.windows_us())
    }

    /// The least of the windows, since other load can only make it worse.
    pub(super) fn least_us(&self) -> Option<f64> {
        least(self.windows_us())
    }

    pub(super) fn samples(&self) -> u64 {
        self.0.iter().map(|window| window.samples).sum()
    }

    /// Runs that recorded nothing, for each recorded sample.
    pub(super) fn empty_runs(&self) -> Option<f64> {
        let runs: u64 = self.0.iter().map(|window| window.runs).sum();
        let samples = self.samples();
        (samples != 0).then(|| float(runs.saturating_sub(samples)) / float(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::proc::ProgramRuns;

    fn reading(time_ns: u64, count: u64, samples: u64) -> Reading {
        Reading {
            runs: ProgramRuns { time_ns, count },
            samples,
            lost: 0,
        }
    }

    #[test]
    fn all_run_time_is_that_of_the_recorded_samples() {
        let readings = [
            reading(1_000, 10, 4),
            reading(41_000, 50, 14),
            reading(61_000, 60, 24),
            reading(71_000, 70, 24),
            reading(161_000, 100, 34),
        ];
        let pairs = readings.windows(2);
        let cost = Cost(
            pairs
                .map(|pair| Window::between(&pair[0], &pair[1]))
                .collect(),
        );
        assert_eq!(cost.sample_us(), Some(4.0));
        assert_eq!(cost.least_us(), Some(2.0));
        assert_eq!(cost.samples(), 30);
        assert_eq!(cost.empty_runs(), Some(2.0));
        assert_eq!(Cost::default().sample_us(), None);
        assert_eq!(Cost::default().empty_runs(), None);
    }
}
