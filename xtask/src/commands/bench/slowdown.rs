//! How much a profiler slows its target down, and what it uses itself.
//!
//! Windows without and with a profiler alternate on one running workload:
//!
//! ```text
//! OFF  agent 100 Hz  OFF  agent 1000 Hz  OFF  its clock alone  OFF  py-spy 100 Hz  OFF  …
//! ```
//!
//! Each window with a profiler is compared with the mean of the two beside it, which cancels
//! slow changes of the machine. The *noise* measures the fast ones: the same comparison for windows
//! without a profiler, each with the windows before and after it.
//!
//! The BPF program runs in the interrupt of the thread's own clock. Where the kernel does not account
//! for interrupts separately (`CONFIG_IRQ_TIME_ACCOUNTING`) that is CPU time of the thread, which the
//! speed by CPU time includes; the speed by wall time includes it everywhere.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::alternation::{Alternation, Middle, alternate, fall};
use super::profiler::{Attached, Folded, Profiler};
use super::workload::{Progress, Speed, Workload, directory};
use crate::commands::observe::proc;
use crate::commands::observe::stats::{deviation, float};

/// Time before a profiler is measured: it reads symbols and sends new code objects.
const SETTLE: Duration = Duration::from_millis(200);

/// How much longer than its window a profiler is attached: it must not end before the window does.
const MARGIN: Duration = Duration::from_millis(300);

/// A profiler at a rate.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) profiler: Profiler,
    pub(super) rate_hz: u32,
    /// The process to profile instead of the workload: with one that sleeps only the interrupts of
    /// the clock are measured, which depend on the machine.
    pub(super) instead: Option<u32>,
}

/// How long the windows are and how often they follow each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    pub(super) without: Duration,
    pub(super) with: Duration,
    pub(super) rounds: u32,
}

/// What one window with a profiler measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    speed: Speed,
    /// CPU of the profiler while it sampled, in percent of one processor.
    pub(super) own_cpu: f64,
    /// From its start to its end.
    pub(super) total_cpu: Duration,
    pub(super) peak_memory_bytes: u64,
    /// Error of its CPU time against the scheduler's account, in percent; only of py-spy, which does
    /// not count its losses.
    pub(super) cpu_error: Option<f64>,
    pub(super) kernel: Option<Kernel>,
}

/// What the BPF program did in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) first_sample_after: Duration,
    /// CPU of all its runs on all processors, in percent of one.
    pub(super) cpu: f64,
}

/// A contender's windows, and by how many percent the target was slower in them.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) windows: Vec<Window>,
    pub(super) slower_by_cpu: Option<Middle>,
    pub(super) slower_by_wall: Option<Middle>,
}

/// By how much windows without a profiler differ, as a standard deviation in percent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    pub(super) by_cpu: Option<f64>,
    pub(super) by_wall: Option<f64>,
}

/// Compares contenders on a workload; one that fails is left out from then on.
pub(super) fn compare(
    workload: &Workload,
    contenders: &[Contender],
    windows: Windows,
) -> Result<(Vec<Result<Compared>>, Noise)> {
    let Alternation { without, with } = alternate(
        contenders,
        windows.rounds,
        || alone(workload, windows.without),
        |contender| profiled(workload, contender, windows.with),
    )?;
    let compared = with
        .into_iter()
        .map(|found| found.map(|found| compared(&found, &without)))
        .collect();
    Ok((compared, noise(&without)))
}

/// The windows with a profiler, each with the number of windows without one that precede it.
fn compared(found: &[(usize, Window)], without: &[Speed]) -> Compared {
    let slower = |by: fn(&Speed) -> Option<f64>| {
        let all: Vec<_> = found
            .iter()
            .filter_map(|(before, window)| {
                slower(by, &window.speed, &without[before - 1], &without[*before])
            })
            .collect();
        Middle::of(&all)
    };
    let wall_is_known = without
        .iter()
        .chain(found.iter().map(|(_, window)| &window.speed))
        .all(|speed| speed.by_wall.is_some());
    Compared {
        windows: found.iter().map(|&(_, window)| window).collect(),
        slower_by_cpu: slower(by_cpu),
        slower_by_wall: slower(by_wall).filter(|_| wall_is_known),
    }
}

/// By how much windows without a profiler differ from those beside them.
pub(super) fn noise(without: &[Speed]) -> Noise {
    let noise = |by: fn(&Speed) -> Option<f64>| {
        let differences = without
            .windows(3)
            .filter_map(|three| slower(by, &three[1], &three[0], &three[2]));
        deviation(differences)
    };
    Noise {
        by_cpu: noise(by_cpu),
        by_wall: noise(by_wall),
    }
}

fn by_cpu(speed: &Speed) -> Option<f64> {
    speed.by_cpu
}

pub(super) fn by_wall(speed: &Speed) -> Option<f64> {
    speed.by_wall
}

/// By how many percent a speed is less than the mean of those beside it.
pub(super) fn slower(
    by: fn(&Speed) -> Option<f64>,
    speed: &Speed,
    before: &Speed,
    after: &Speed,
) -> Option<f64> {
    Some(fall(by(speed)?, by(before)?, by(after)?))
}

/// The speed of a program that nobody profiles.
pub(super) fn alone(workload: &Workload, duration: Duration) -> Result<Speed> {
    let start = workload.progress()?;
    thread::sleep(duration);
    Ok(Speed::between(&start, &workload.progress()?))
}

fn profiled(workload: &Workload, contender: &Contender, duration: Duration) -> Result<Window> {
    let output = directory()?.join("slowdown.folded");
    let rate_hz = contender.rate_hz;
    let pid = contender.instead.unwrap_or(workload.pid());
    let mut attached =
        contender
            .profiler
            .start(pid, rate_hz, SETTLE + duration + MARGIN, &output)?;
    thread::sleep(SETTLE);
    let start = Moment::now(workload, &mut attached)?;
    thread::sleep(duration);
    let end = Moment::now(workload, &mut attached)?;

    let wall = end.progress.since(&start.progress).as_secs_f64();
    let kernel = match (&attached, start.kernel_time, end.kernel_time) {
        (Attached::Agent(capture), Some(start), Some(end)) => Some(Kernel {
            first_sample_after: capture.first_sample_after(),
            cpu: 100.0 * end.saturating_sub(start).as_secs_f64() / wall,
        }),
        _ => None,
    };
    let attached_for = attached.duration();
    let usage = attached.finish()?;
    let cpu_error = match contender.profiler {
        Profiler::Agent(_) => None,
        Profiler::PySpy(_) => {
            let profiled = float(Folded::read(&output)?.total()) / f64::from(rate_hz);
            let share = end.progress.cpu_since(&start.progress).as_secs_f64() / wall;
            Some(100.0 * (profiled / (share * attached_for.as_secs_f64()) - 1.0))
        }
    };
    Ok(Window {
        speed: Speed::between(&start.progress, &end.progress),
        own_cpu: 100.0 * end.own_cpu.saturating_sub(start.own_cpu).as_secs_f64() / wall,
        total_cpu: usage.cpu,
        peak_memory_bytes: usage.peak_memory_bytes,
        cpu_error,
        kernel,
    })
}

/// The state of everything at the start or the end of a window.
struct Moment {
    progress: Progress,
    own_cpu: Duration,
    kernel_time: Option<Duration>,
}

impl Moment {
    fn now(workload: &Workload, attached: &mut Attached) -> Result<Self> {
        let reading = match attached {
            Attached::Agent(capture) => capture.reading()?,
            Attached::Other { .. } => None,
        };
        Ok(Self {
            progress: workload.progress()?,
            own_cpu: proc::cpu_time(attached.pid())?,
            kernel_time: reading.map(|reading| Duration::from_nanos(reading.runs.time_ns)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(by_cpu: f64) -> Speed {
        Speed {
            by_cpu: Some(by_cpu),
            by_wall: None,
        }
    }

    fn window(by_cpu: f64) -> Window {
        Window {
            speed: speed(by_cpu),
            own_cpu: 0.0,
            total_cpu: Duration::ZERO,
            peak_memory_bytes: 0,
            cpu_error: None,
            kernel: None,
        }
    }

    #[test]
    fn a_window_is_compared_with_those_beside_it() {
        let without = [100.0, 200.0, 400.0].map(speed);
        let found = [(1, window(75.0)), (2, window(120.0))];
        let compared = compared(&found, &without);
        assert_eq!(
            compared.slower_by_cpu,
            Some(Middle {
                median: 55.0,
                spread: 5.0
            })
        );
        assert_eq!(compared.slower_by_wall, None);
    }

    #[test]
    fn the_noise_is_the_difference_without_a_profiler() {
        let noise = noise(&[100.0, 80.0, 100.0].map(speed));
        assert_eq!(noise.by_cpu.map(f64::round), Some(20.0));
        assert_eq!(noise.by_wall, None);
    }
}
