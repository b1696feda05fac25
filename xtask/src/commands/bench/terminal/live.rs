//! Views that are refreshed while the program runs.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::alternation::{Alternation, Middle, alternate};
use super::super::slowdown::{alone, by_wall, noise, slower};
use super::super::workload::{Speed, Workload};
use super::screen::Screen;
use super::{Options, Tools};
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;

/// The function in which the program computes.
const FUNCTION: &str = "spin";

/// Time until it is shown.
const LIMIT: Duration = Duration::from_secs(20);

/// Part of a window after which the memory is read for the first time.
const BEGINNING: u32 = 4;

/// Longest time without a view between windows with one.
const LONGEST_ALONE: Duration = Duration::from_secs(10);

/// A live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Agent,
    PySpy,
    /// `profiling.sampling`, which CPython has since 3.15.
    Tachyon,
}

/// The figures of one of them.
#[derive(Debug)]
pub(super) struct Row {
    /// Seconds until the screen shows where the program computes.
    pub(super) first_rows: Middle,
    /// CPU time of the view, in percent of a processor.
    pub(super) own_cpu: Middle,
    /// By how many percent less the program finishes; [`None`] where it waited for processors too long.
    pub(super) slower: Option<Middle>,
    /// Megabytes after the first quarter of the window.
    pub(super) memory: Middle,
    /// By how many of them there are more at its end.
    pub(super) growth: Middle,
}

#[derive(Debug)]
struct Window {
    first_rows: f64,
    own_cpu: f64,
    speed: Speed,
    memory: f64,
    growth: f64,
}

impl View {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent top",
            Self::PySpy => "py-spy top",
            Self::Tachyon => "profiling.sampling attach --live",
        }
    }

    fn command(self, tools: &Tools, pid: u32, rate_hz: u32) -> Command {
        let (pid, rate) = (pid.to_string(), rate_hz.to_string());
        match self {
            Self::Agent => {
                let mut command = Command::new(&tools.agent);
                command.args(["top", "--rate", &rate, "--pid", &pid]);
                command
            }
            Self::PySpy => {
                let mut command = Command::new(&tools.py_spy);
                command.args(["top", "--rate", &rate, "--pid", &pid]);
                command
            }
            Self::Tachyon => {
                // Where the program runs: in that file system the interpreter finds itself.
                let mut command = Command::new("nsenter");
                command.args(["--target", &pid, "--mount", "--root", "--wd=/"]);
                command.args(["python3.15", "-m", "profiling.sampling", "attach"]);
                command.args(["--live", "--all-threads", "--sampling-rate", &rate, &pid]);
                // Others need files that a small root file system lacks.
                command.env("LC_ALL", "C");
                command.env("TERMINFO_DIRS", terminals_of_machine());
                command
            }
        }
    }
}

/// Where this machine describes terminals, as a process sees it that has another root file system.
fn terminals_of_machine() -> String {
    let root = format!("/proc/{}/root", std::process::id());
    ["etc", "lib", "usr/share"]
        .map(|directory| format!("{root}/{directory}/terminfo"))
        .join(":")
}

/// What was measured with an interpreter.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) rows: Vec<(View, Result<Row>)>,
    /// By how many percent windows without a view differ in what is finished, as a standard deviation.
    pub(super) noise: Option<f64>,
}

/// Measures each view on a program that runs.
pub(super) fn measure(
    tools: &Tools,
    workload: &Workload,
    views: &[View],
    options: &Options,
) -> Result<Measured> {
    let Alternation { without, with } = alternate(
        views,
        options.rounds,
        || alone(workload, options.window.min(LONGEST_ALONE)),
        |view| shown(tools, workload, *view, options),
    )?;
    let rows = with
        .into_iter()
        .map(|found| found.and_then(|windows| row(&windows, &without).context("no windows")));
    Ok(Measured {
        rows: views.iter().copied().zip(rows).collect(),
        noise: noise(&without).by_wall,
    })
}

fn shown(tools: &Tools, workload: &Workload, view: View, options: &Options) -> Result<Window> {
    let screen = Screen::start(&view.command(tools, workload.pid(), options.rate))?;
    let first_rows = screen.wait_for(FUNCTION, LIMIT)?;
    let (start, own_start) = (workload.progress()?, proc::cpu_time(screen.pid())?);
    let beginning = options.window / BEGINNING;
    thread::sleep(beginning);
    let memory_at_start = proc::memory_bytes(screen.pid())?;
    thread::sleep(options.window.saturating_sub(beginning));
    let (end, own_end) = (workload.progress()?, proc::cpu_time(screen.pid())?);
    let memory_at_end = proc::memory_bytes(screen.pid())?;
    let used = own_end.saturating_sub(own_start).as_secs_f64();
    let megabytes = |bytes| float(bytes) / 1e6;
    Ok(Window {
        first_rows: first_rows.as_secs_f64(),
        own_cpu: 100.0 * used / end.since(&start).as_secs_f64(),
        speed: Speed::between(&start, &end),
        memory: megabytes(memory_at_start),
        growth: megabytes(memory_at_end) - megabytes(memory_at_start),
    })
}

fn row(windows: &[(usize, Window)], without: &[Speed]) -> Option<Row> {
    let middle = |figure: fn(&Window) -> f64| {
        let all: Vec<f64> = windows.iter().map(|(_, window)| figure(window)).collect();
        Middle::of(&all)
    };
    let slower: Vec<f64> = windows
        .iter()
        .filter_map(|(before, window)| {
            let (before, after) = (&without[before - 1], &without[*before]);
            slower(by_wall, &window.speed, before, after)
        })
        .collect();
    Some(Row {
        first_rows: middle(|window| window.first_rows)?,
        own_cpu: middle(|window| window.own_cpu)?,
        slower: Middle::of(&slower),
        memory: middle(|window| window.memory)?,
        growth: middle(|window| window.growth)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_compared_with_those_beside_it() {
        let speed = |by_wall| Speed {
            by_cpu: None,
            by_wall,
        };
        let window = |by_wall, growth| Window {
            first_rows: 1.0,
            own_cpu: 2.0,
            speed: speed(by_wall),
            memory: 30.0,
            growth,
        };
        let without = [Some(10.0), Some(30.0), None].map(speed);
        let windows = [(1, window(Some(15.0), 1.0)), (2, window(Some(20.0), 2.0))];
        let row = row(&windows, &without).unwrap();
        let slower = row.slower.unwrap();
        assert_eq!((slower.median, slower.spread), (25.0, 0.0));
        assert_eq!((row.growth.median, row.growth.spread), (1.5, 0.5));
    }
}
