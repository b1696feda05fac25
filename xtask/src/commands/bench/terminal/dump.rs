//! The stacks of all threads once, from the start of the program to its end.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::alternation::Middle;
use super::super::workload::Workload;
use super::Tools;
use crate::commands::observe::child::{Running, Usage};
use crate::commands::observe::stats::float;

/// Time for one.
const LIMIT: Duration = Duration::from_secs(30);

/// A way to take the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Snapshot {
    /// The agent with these options.
    Agent(&'static [&'static str]),
    /// py-spy with these options.
    PySpy(&'static [&'static str]),
}

/// The figures of one of them.
#[derive(Debug)]
pub(super) struct Row {
    /// Milliseconds from its start to its end.
    pub(super) elapsed: Middle,
    /// Milliseconds of CPU time.
    pub(super) cpu: Middle,
    /// Megabytes at the peak, at least [`floor`].
    pub(super) memory: Middle,
}

impl Snapshot {
    pub(super) const ALL: [Self; 5] = [
        Self::Agent(&["--no-native"]),
        Self::PySpy(&[]),
        Self::PySpy(&["--nonblocking"]),
        Self::Agent(&[]),
        Self::PySpy(&["--native"]),
    ];

    pub(super) fn name(self) -> String {
        let (profiler, options) = match self {
            Self::Agent(options) => ("agent", options),
            Self::PySpy(options) => ("py-spy", options),
        };
        format!("{profiler} dump {}", options.join(" "))
            .trim_end()
            .to_owned()
    }

    fn command(self, tools: &Tools, pid: u32) -> Command {
        let (program, options) = match self {
            Self::Agent(options) => (&tools.agent, options),
            Self::PySpy(options) => (&tools.py_spy, options),
        };
        let mut command = Command::new(program);
        command.arg("dump").args(options);
        command.args(["--pid", &pid.to_string()]);
        command
    }
}

/// Takes so many dumps in each way, in turn, after one that is not counted.
pub(super) fn measure(
    tools: &Tools,
    workload: &Workload,
    snapshots: &[Snapshot],
    dumps: u32,
) -> Vec<(Snapshot, Result<Row>)> {
    let take = |snapshot: Snapshot| {
        Running::start(&mut snapshot.command(tools, workload.pid()))?.finish(LIMIT)
    };
    let mut all: Vec<(Snapshot, Result<Vec<Usage>>)> = snapshots
        .iter()
        .map(|&it| (it, take(it).map(|_| Vec::new())))
        .collect();
    for _ in 0..dumps {
        for (snapshot, found) in &mut all {
            let Ok(usages) = found else { continue };
            match take(*snapshot) {
                Ok(usage) => usages.push(usage),
                Err(error) => *found = Err(error),
            }
        }
    }
    all.into_iter()
        .map(|(snapshot, found)| {
            let row = found.and_then(|usages| row(&usages).context("no dumps"));
            (snapshot, row)
        })
        .collect()
}

/// Megabytes that the kernel says that any program has used at its peak: before it runs, a child is a copy of its parent.
pub(super) fn floor() -> Result<f64> {
    let usage = Running::start(&mut Command::new("true"))?.finish(LIMIT)?;
    Ok(float(usage.peak_memory_bytes) / 1e6)
}

fn row(usages: &[Usage]) -> Option<Row> {
    let middle = |figure: fn(&Usage) -> f64| {
        let all: Vec<f64> = usages.iter().map(figure).collect();
        Middle::of(&all)
    };
    Some(Row {
        elapsed: middle(|usage| usage.wall.as_secs_f64() * 1e3)?,
        cpu: middle(|usage| usage.cpu.as_secs_f64() * 1e3)?,
        memory: middle(|usage| float(usage.peak_memory_bytes) / 1e6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_in_the_name_and_in_the_command() {
        let tools = Tools {
            agent: "agent".into(),
            py_spy: "py-spy".into(),
        };
        let native = Snapshot::PySpy(&["--native"]);
        assert_eq!(native.name(), "py-spy dump --native");
        let command = native.command(&tools, 7);
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["dump", "--native", "--pid", "7"]);
        assert_eq!(Snapshot::Agent(&[]).name(), "agent dump");
    }
}
