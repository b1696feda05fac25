//! `cargo xtask bench samples`: the kernel time of each recorded sample, with caches that a neighbour
//! fills, as they are at always-on rates; and what the start of the agent costs.
//!
//! Invariants: figures are printed, never asserted; with another agent to compare with, both are
//! measured in alternation on the same processes.

mod case;
mod cost;
mod start;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use xtask::interpreters::Interpreter;
use xtask::process::is_root;
use xtask::tools::GCC;
use xtask::{paths, process};

use super::super::build;
use super::bpf::Accounting;
use super::machine::Machine;
use super::python;
use super::workload::{Workload, directory};
use crate::commands::observe::child::Running;
use cost::Cost;

/// How much longer the long form measures, and how many times it repeats everything.
const LONG_TIMES: u32 = 3;
const LONG_ROUNDS: u32 = 3;

/// What the neighbour walks through on each processor.
const NEIGHBOUR_MB: u32 = 48;

/// How long the neighbour runs at most.
const LONGEST_SECONDS: u32 = 7200;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure for half an hour instead of five minutes
    #[arg(long)]
    long: bool,
    /// Also measure this agent, in alternation
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Run the targets with this interpreter instead of the newest
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Repeat each measurement, with another agent in alternation [default: 1, --long: 3]
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Memory that the neighbour walks through on each processor, in megabytes; 0 for no neighbour
    #[arg(long, value_name = "MB", default_value_t = NEIGHBOUR_MB)]
    neighbour: u32,
    /// Measure only targets whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    target: String,
    /// Measure only at this rate
    #[arg(long, value_name = "HZ")]
    rate: Option<u32>,
    /// Measure only what the start of the agent costs
    #[arg(long)]
    only_start: bool,
}

/// Measures, and prints the figures.
///
/// # Errors
///
/// When something could not be measured.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let other = options.against.as_deref();
    let python = match &options.python {
        Some(path) => Interpreter::at(path)?,
        None => python::newest(&agent)?,
    };
    let _accounting = Accounting::enable()?;
    let mut machine = Machine::before()?;

    let workload = Workload::start(&python, case::W1.workload, case::W1.argument)?;
    eprintln!("start of the agent");
    let mut starts = vec![("agent", start::measure(&agent, &workload)?)];
    if let Some(other) = other {
        starts.push(("other", start::measure(other, &workload)?));
    }
    drop(workload);

    let costs = if options.only_start {
        Vec::new()
    } else {
        costs(options, &agent, other, &python)?
    };
    machine.after()?;
    println!("{machine}");
    println!(
        "CPython {}, {}\n",
        python::full_version(&python)?,
        python.path.display()
    );
    if !costs.is_empty() {
        println!("{}", table::costs(&costs));
    }
    print!("{}", table::starts(&starts));
    Ok(())
}

/// Measures all cases.
fn costs(
    options: &Options,
    agent: &Path,
    other: Option<&Path>,
    python: &Interpreter,
) -> Result<Vec<(case::Case, Cost, Option<Cost>)>> {
    let _neighbour = match options.neighbour {
        0 => None,
        megabytes => Some(neighbour(megabytes)?),
    };
    let (times, rounds) = if options.long {
        (LONG_TIMES, LONG_ROUNDS)
    } else {
        (1, 1)
    };
    let rounds = options.rounds.unwrap_or(rounds);
    let mut costs = Vec::new();
    for (target, mut cases) in case::all() {
        let rate = options.rate;
        cases.retain(|case| rate.is_none_or(|rate_hz| case.rate_hz == rate_hz));
        if cases.is_empty() || !target.what.contains(&options.target) {
            continue;
        }
        let workload = Workload::start(python, target.workload, target.argument)?;
        for case in cases {
            eprintln!(
                "{}, {} Hz, {}, {}",
                target.what,
                case.rate_hz,
                case.scope.name(),
                case.stacks.flag()
            );
            let mut cost = Cost::default();
            let mut other_cost = other.map(|_| Cost::default());
            for _ in 0..rounds {
                cost::measure(agent, &workload, case, times, &mut cost)?;
                if let (Some(other), Some(cost)) = (other, &mut other_cost) {
                    cost::measure(other, &workload, case, times, cost)?;
                }
            }
            costs.push((case, cost, other_cost));
        }
    }
    Ok(costs)
}

/// Starts the program that evicts the caches of all processors.
fn neighbour(megabytes: u32) -> Result<Running> {
    let source = paths::workspace().join("xtask/bench/cache_filler.c");
    let program = directory()?.join("cache_filler");
    process::run(
        GCC.command()
            .args(["-O2", "-pthread"])
            .arg(source)
            .arg("-o")
            .arg(&program),
    )
    .context("the neighbour cannot be compiled")?;
    let arguments = [LONGEST_SECONDS, megabytes].map(|number| number.to_string());
    Running::start(Command::new(program).args(arguments))
}
