//! Windows with each profiler, between windows without one.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::alternation::{Alternation, Middle, alternate, fall};
use super::super::workload::{Workload, directory};
use super::Options;
use super::contender::{Contender, Kind, Tools};
use super::found;
use super::stamps::{FUNCTIONS, HOLDS_GIL, Moment, Stamps};
use crate::commands::observe::child::Running;
use crate::commands::observe::proc;
use crate::commands::observe::stats::deviation;

/// What a profiler is given to begin.
const BEGIN: Duration = Duration::from_secs(1);

/// How much longer than the window it profiles: it must not end before.
const MARGIN: Duration = Duration::from_secs(1);

/// What was measured with an interpreter.
#[derive(Debug)]
pub(super) struct Measured {
    /// Of the windows without a profiler: the last one.
    pub(super) stamps: Stamps,
    /// By how much these differ in what was finished, as a standard deviation in percent.
    pub(super) noise: Option<f64>,
    pub(super) rows: Vec<(Contender, Result<Row>)>,
}

/// The figures of a profiler, each in percent.
#[derive(Debug)]
pub(super) struct Row {
    /// By how much less is finished in the same time.
    pub(super) slower: Middle,
    /// CPU time of the profiler, of a processor.
    pub(super) own_cpu: Middle,
    /// What it found of the time that the program stamped.
    pub(super) found: Middle,
    /// Of elapsed time: by how much shares of functions are wrong, all added and halved. Of the GIL: the share of
    /// functions that do not hold it.
    pub(super) wrong: Middle,
}

#[derive(Debug)]
struct Window {
    stamps: Stamps,
    own_cpu: f64,
    found: f64,
    wrong: f64,
}

/// Measures each contender on a program that runs.
pub(super) fn measure(
    tools: &Tools,
    workload: &Workload,
    contenders: &[Contender],
    options: &Options,
) -> Result<Measured> {
    let Alternation { without, with } = alternate(
        contenders,
        options.rounds,
        || alone(workload, options.window / 2),
        |contender| profiled(tools, workload, *contender, options),
    )?;
    let rows = with
        .into_iter()
        .map(|found| found.and_then(|windows| row(&windows, &without).context("no windows")));
    let differences = without
        .windows(3)
        .map(|three| slower(&three[1], &three[0], &three[2]));
    Ok(Measured {
        noise: deviation(differences),
        rows: contenders.iter().copied().zip(rows).collect(),
        stamps: *without.last().context("no windows")?,
    })
}

fn alone(workload: &Workload, duration: Duration) -> Result<Stamps> {
    let start = Moment::now(workload)?;
    thread::sleep(duration);
    Ok(start.until(&Moment::now(workload)?))
}

fn profiled(
    tools: &Tools,
    workload: &Workload,
    contender: Contender,
    options: &Options,
) -> Result<Window> {
    let output = directory()?.join("waiting.folded");
    let written = contender.written(&output);
    // What an earlier profiler wrote is not this one's.
    for file in [&output, &written] {
        if file.exists() {
            fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    let duration = Duration::from_secs((BEGIN + options.window + MARGIN).as_secs() + 1);
    let mut command = contender.command(tools, workload.pid(), options.rate, duration, &output)?;
    let mut running = Running::start(&mut command)?;
    thread::sleep(BEGIN);
    running.wait_until("the beginning", 2 * BEGIN, || Some(()))?;
    let (start, own_start) = (Moment::now(workload)?, proc::cpu_time(running.pid())?);
    thread::sleep(options.window);
    let (end, own_end) = (Moment::now(workload)?, proc::cpu_time(running.pid())?);
    running.finish(4 * duration)?;
    let text = fs::read_to_string(&written)
        .with_context(|| format!("cannot read {}", written.display()))?;
    let stamps = start.until(&end);
    let found = found::seconds(&text, contender.units_per_second(options.rate))?;
    let (found, wrong) = judge(contender.kind(), &found, &stamps, duration.as_secs_f64());
    Ok(Window {
        stamps,
        own_cpu: 100.0 * own_end.saturating_sub(own_start).as_secs_f64()
            / options.window.as_secs_f64(),
        found,
        wrong,
    })
}

/// What was found of the stamped time, and what of it is wrong, in percent.
fn judge(kind: Kind, found: &[f64; FUNCTIONS.len()], stamps: &Stamps, duration: f64) -> (f64, f64) {
    let total: f64 = found.iter().sum();
    match kind {
        Kind::Wall => {
            let all: f64 = stamps.elapsed.iter().sum();
            let pairs = found.iter().zip(stamps.elapsed);
            let differences = pairs.map(|(found, is)| (found / total - is / all).abs());
            let wrong = differences.sum::<f64>() / 2.0;
            (100.0 * total / (all * duration), 100.0 * wrong)
        }
        Kind::Gil => {
            let held = found[HOLDS_GIL];
            let found = held / (stamps.with_gil * duration);
            (100.0 * found, 100.0 * (total - held) / total)
        }
    }
}

fn row(windows: &[(usize, Window)], without: &[Stamps]) -> Option<Row> {
    let middle = |figure: &dyn Fn(&(usize, Window)) -> f64| {
        Middle::of(&windows.iter().map(figure).collect::<Vec<_>>())
    };
    Some(Row {
        slower: middle(&|(before, window)| {
            slower(&window.stamps, &without[before - 1], &without[*before])
        })?,
        own_cpu: middle(&|(_, window)| window.own_cpu)?,
        found: middle(&|(_, window)| window.found)?,
        wrong: middle(&|(_, window)| window.wrong)?,
    })
}

/// By how many percent less is finished than on average in the windows beside it.
fn slower(window: &Stamps, before: &Stamps, after: &Stamps) -> f64 {
    fall(window.units, before.units, after.units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: Stamps = Stamps {
        elapsed: [1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0],
        with_gil: 0.5,
        units: 10.0,
    };

    #[test]
    fn half_of_the_differences_is_on_the_wrong_side() {
        let found = [2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0];
        let (found, wrong) = judge(Kind::Wall, &found, &STAMPS, 2.0);
        assert_eq!((found, wrong), (50.0, 25.0));
    }

    #[test]
    fn what_does_not_hold_the_lock_is_wrong() {
        let found = [0.75, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0];
        let (found, wrong) = judge(Kind::Gil, &found, &STAMPS, 2.0);
        assert_eq!((found, wrong), (75.0, 25.0));
    }

    #[test]
    fn a_window_is_compared_with_those_beside_it() {
        let window = |units, found| Window {
            stamps: Stamps { units, ..STAMPS },
            own_cpu: 1.0,
            found,
            wrong: 2.0,
        };
        let without = [10.0, 30.0, 10.0].map(|units| Stamps { units, ..STAMPS });
        let windows = [(1, window(10.0, 90.0)), (2, window(20.0, 100.0))];
        let row = row(&windows, &without).unwrap();
        let middle = |median, spread| Middle { median, spread };
        assert_eq!(row.slower, middle(25.0, 25.0));
        assert_eq!(row.found, middle(95.0, 5.0));
    }
}
