//! `cargo xtask bench growth`: by how much programs are slower while the growth of their memory is profiled, which has
//! BPF programs at each page fault of theirs.
//!
//! Invariant: figures are printed, never asserted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use xtask::interpreters::Interpreter;
use xtask::process::is_root;

use super::super::build;
use super::bpf::Accounting;
use super::machine::Machine;
use super::profiler::Profiler;
use super::python;
use super::slowdown::{Contender, Slower, Windows, compare};
use super::workload::{Kind, Workload};
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;

/// What does nothing but page faults.
const FRESH_MEMORY: &str = "fresh_memory";

/// How long the workload runs without the agent, and with it.
const WINDOW: Duration = Duration::from_secs(2);

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Run the workloads with this interpreter instead of the newest; 3.8 or later
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Number of windows with the agent
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: u32,
}

/// Measures each workload, and prints a row of it.
///
/// # Errors
///
/// When the agent or a workload does not run.
pub(super) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let python = match &options.python {
        Some(path) => Interpreter::at(path)?,
        None => newest(&agent)?,
    };
    let mut machine = Machine::before()?;
    let kinds = [
        Kind::DeepSingle,
        Kind::Threads,
        Kind::ShortCalls,
        Kind::CExtensions,
    ];
    let mut rows = Vec::new();
    for name in [FRESH_MEMORY]
        .into_iter()
        .chain(kinds.iter().map(|kind| kind.name()))
    {
        eprintln!("measuring {name}");
        rows.push(measure(&agent, &python, name, options.rounds)?);
    }
    machine.after()?;
    println!("{machine}\n\nCPython, {}\n", python.path.display());
    println!(
        "{:<16} {:>10} {:>22} {:>22}",
        "", "faults/s", "slower by CPU", "noise"
    );
    for row in rows {
        println!("{row}");
    }
    Ok(())
}

/// The newest interpreter, to find which the kernel has to account for the time of programs.
fn newest(agent: &Path) -> Result<Interpreter> {
    let _accounting = Accounting::enable()?;
    python::newest(agent)
}

fn measure(agent: &Path, python: &Interpreter, name: &str, rounds: u32) -> Result<String> {
    let workload = Workload::start(python, name, None)?;
    let contender = Contender {
        profiler: Profiler::Growth(agent.to_owned()),
        // Samples are of bytes, not of time.
        rate_hz: 100,
        instead: None,
    };
    let windows = Windows {
        without: WINDOW,
        with: WINDOW,
        rounds,
    };
    let (began, faults) = (workload.progress()?, proc::page_faults(workload.pid())?);
    let (mut compared, noise) = compare(&workload, &[contender], windows)?;
    let seconds = workload.progress()?.since(&began).as_secs_f64();
    let faults = float(proc::page_faults(workload.pid())? - faults) / seconds;
    let slower = compared.remove(0)?.slower_by_cpu;
    let slower = slower.map_or_else(
        || "unknown".to_owned(),
        |Slower { median, spread }| format!("{median:.2} % ± {spread:.2}"),
    );
    let noise = noise
        .by_cpu
        .map_or(String::new(), |noise| format!("{noise:.2} %"));
    Ok(format!(
        "{name:<16} {faults:>10.0} {slower:>22} {noise:>22}"
    ))
}
