//! By how much the CPU time that a program needs for the same work rises with a profiler.
//!
//! ```text
//! one process:           OFF  agent growth  OFF  agent in-use  OFF  …
//! a process per window:  OFF  tracemalloc   OFF  memray        OFF  …
//! ```
//!
//! Each window with a profiler is compared with the mean of the two beside it, as in `slowdown`. What a
//! program must be started with has a process of its own, and so have the windows beside it: what
//! differs between two processes of the same program is then in the noise.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::super::alternation::{self, Alternation, Middle};
use super::super::workload::{Speed, Workload};
use super::contender::{Contender, Tools, output};
use super::program::Program;
use crate::commands::observe::proc;
use crate::commands::observe::stats::{deviation, float, median};

/// CPU time of the program in each window: other load on the machine makes them longer, not smaller.
const WINDOW: Duration = Duration::from_millis(600);

/// How long a window is at least, for the CPU of the profiler, and how long at most.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(15);

/// How often the program's CPU time is asked for.
const PAUSE: Duration = Duration::from_millis(20);

/// What a program is given before a window.
const SETTLE: Duration = Duration::from_millis(200);

/// What was measured of a program.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) rows: Vec<(Contender, Result<Rise>)>,
    /// Units of work, and page faults, in a second of CPU time without a profiler.
    pub(super) units: f64,
    pub(super) faults: f64,
    /// By how many percent windows without a profiler differ, in one process and between processes.
    pub(super) noise: [Option<f64>; 2],
}

/// What was measured with one profiler, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rise {
    pub(super) cpu_time: Middle,
    /// CPU of the profiler itself, of one processor; of one in the program it is in the rise.
    pub(super) own_cpu: Option<f64>,
}

/// A window with a profiler.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Units of work per second of CPU time.
    speed: f64,
    own_cpu: Option<f64>,
}

/// Measures a program with each of its profilers; one that fails is left out from then on.
pub(super) fn measure(tools: &Tools, program: &Program, rounds: u32) -> Result<Measured> {
    let workload = Workload::start(&tools.python, program.name, None)?;
    thread::sleep(SETTLE);
    let (units, faults) = character(&workload)?;
    let outside = alternate(
        program.outside,
        rounds,
        || speed(&workload),
        |contender| attached(tools, &workload, contender),
    )?;
    drop(workload);
    let inside = alternate(
        program.inside,
        rounds,
        || speed(&Settled::start(tools, program.name, None)?.0),
        |contender| {
            let settled = Settled::start(tools, program.name, Some(contender))?;
            Ok(Window {
                speed: speed(&settled.0)?,
                own_cpu: None,
            })
        },
    )?;
    let noise = [outside.1, inside.1];
    Ok(Measured {
        rows: outside.0.into_iter().chain(inside.0).collect(),
        units,
        faults,
        noise,
    })
}

/// A program that has been at work for a moment.
struct Settled(Workload);

impl Settled {
    fn start(tools: &Tools, name: &str, contender: Option<Contender>) -> Result<Self> {
        let output = output("bin")?;
        let options = contender.map_or_else(
            || Ok(Vec::new()),
            |contender| contender.options(tools, &output),
        )?;
        let workload = Workload::start_with(&tools.python, &options, name, None)?;
        if let Some(contender) = contender {
            contender.inject(tools, workload.pid(), &output)?;
        }
        thread::sleep(SETTLE);
        Ok(Self(workload))
    }
}

/// Units of work and page faults in a second of CPU time.
fn character(workload: &Workload) -> Result<(f64, f64)> {
    let (start, faults) = (workload.progress()?, proc::page_faults(workload.pid())?);
    let units = speed(workload)?;
    let cpu = workload.progress()?.cpu_since(&start).as_secs_f64();
    let faults = proc::page_faults(workload.pid())? - faults;
    Ok((units, float(faults) / cpu))
}

/// Units of work per second of CPU time.
fn speed(workload: &Workload) -> Result<f64> {
    let start = workload.progress()?;
    loop {
        thread::sleep(PAUSE);
        let now = workload.progress()?;
        let by_cpu = Speed::between(&start, &now).by_cpu;
        let elapsed = now.since(&start);
        match by_cpu.filter(|&speed| speed > 0.0) {
            Some(speed) if elapsed > SHORTEST && now.cpu_since(&start) > WINDOW => {
                return Ok(speed);
            }
            None if elapsed > LONGEST => bail!("the program has done nothing in {LONGEST:?}"),
            Some(speed) if elapsed > LONGEST => return Ok(speed),
            _ => {}
        }
    }
}

fn attached(tools: &Tools, workload: &Workload, contender: Contender) -> Result<Window> {
    let attached = contender.attach(tools, workload.pid(), &output("folded")?)?;
    let (began, before) = (Instant::now(), proc::cpu_time(attached.pid())?);
    let speed = speed(workload)?;
    let own = proc::cpu_time(attached.pid())?.saturating_sub(before);
    let elapsed = began.elapsed();
    attached.finish()?;
    Ok(Window {
        speed,
        own_cpu: Some(100.0 * own.as_secs_f64() / elapsed.as_secs_f64()),
    })
}

/// Windows with each contender, between windows without one; also the noise of those.
#[expect(clippy::type_complexity, reason = "rows and their noise")]
fn alternate(
    contenders: &[Contender],
    rounds: u32,
    without: impl FnMut() -> Result<f64>,
    mut with: impl FnMut(Contender) -> Result<Window>,
) -> Result<(Vec<(Contender, Result<Rise>)>, Option<f64>)> {
    if contenders.is_empty() {
        return Ok((Vec::new(), None));
    }
    let Alternation {
        without: alone,
        with,
    } = alternation::alternate(contenders, rounds, without, |&contender| with(contender))?;
    let noise = alone
        .windows(3)
        .map(|three| rise(three[1], three[0], three[2]));
    let noise = deviation(noise);
    let rows = contenders
        .iter()
        .zip(with)
        .map(|(&contender, found)| {
            let rise = found.and_then(|windows| Rise::of(&windows, &alone));
            (contender, rise)
        })
        .collect();
    Ok((rows, noise))
}

impl Rise {
    /// Of windows, each with the number of windows without a profiler that precede it.
    fn of(windows: &[(usize, Window)], alone: &[f64]) -> Result<Self> {
        let rises: Vec<_> = windows
            .iter()
            .map(|&(before, window)| rise(window.speed, alone[before - 1], alone[before]))
            .collect();
        Ok(Self {
            cpu_time: Middle::of(&rises).context("nothing was measured")?,
            own_cpu: median(windows.iter().filter_map(|(_, window)| window.own_cpu)),
        })
    }
}

/// By how many percent more CPU time a unit of work takes than in the windows beside it.
fn rise(speed: f64, before: f64, after: f64) -> f64 {
    100.0 * (f64::midpoint(before, after) / speed - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_speed_is_twice_the_time() {
        let window = |speed| Window {
            speed,
            own_cpu: Some(speed),
        };
        let rise = Rise::of(
            &[(1, window(75.0)), (2, window(100.0))],
            &[100.0, 200.0, 400.0],
        );
        let expected = Rise {
            cpu_time: Middle {
                median: 150.0,
                spread: 50.0,
            },
            own_cpu: Some(87.5),
        };
        assert_eq!(rise.unwrap(), expected);
        assert!(Rise::of(&[], &[100.0]).is_err());
    }

    #[test]
    fn one_that_fails_is_not_tried_again() {
        let mut tried = 0;
        let contenders = [Contender::Memray, Contender::PerfTrace];
        let (rows, noise) = alternate(
            &contenders,
            3,
            || Ok(10.0),
            |contender| {
                anyhow::ensure!(contender == Contender::Memray, "no perf");
                tried += 1;
                Ok(Window {
                    speed: 5.0,
                    own_cpu: None,
                })
            },
        )
        .unwrap();
        assert_eq!((tried, noise), (3, Some(0.0)));
        assert!(rows[0].1.is_ok() && rows[1].1.is_err());
    }
}
