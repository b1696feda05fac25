//! The benchmark: overhead and accuracy of the agent, beside py-spy and against the budgets of
//! [`budget`].
//!
//! Invariants: figures are printed, not asserted, because they depend on the machine and its load;
//! only a failed measurement is an error, and with `bench host --gate` an exceeded budget. The agent
//! is an ordinary release build that is observed from outside.
//!
//! ```text
//! workload ◄─ profiler (agent │ py_spy) ─► kernel_cost │ slowdown │ accuracy ─► figure ─► table │ json
//! ```
//!
//! Six benches are commands of their own: [`host`], the agent beside programs whose symbols are
//! expensive, [`samples`], what a recorded sample costs where the caches are cold, [`memory`], what
//! profiles of memory and of exceptions cost beside the tools that people use, [`waiting`], the same
//! of elapsed time and of the GIL, with how true they are, [`passes`], what the passes behind those cost for each thread, and
//! [`terminal`], what `dump` and `top` take.

mod accuracy;
mod agent;
mod alternation;
mod bpf;
mod budget;
mod figure;
mod host;
mod json;
mod kernel_cost;
mod machine;
mod memory;
mod memray;
mod passes;
mod plan;
mod profiler;
mod py_spy;
mod python;
mod samples;
mod scenes;
mod session;
mod slowdown;
mod table;
mod terminal;
mod waiting;
mod windows;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use xtask::interpreters::Interpreter;
use xtask::process::is_root;

use super::build;
use bpf::Accounting;
use figure::{Figure, Figures};
use machine::Machine;
use plan::Plan;
use session::Session;
use table::Table;
pub(crate) use workload::Kind;

/// What to measure.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// Measure only the most important figures, in about one minute instead of ten
    #[arg(long)]
    quick: bool,
    /// Run the workloads with this interpreter instead of the newest and an old one
    #[arg(long = "python", value_name = "PATH")]
    pythons: Vec<PathBuf>,
    /// Measure only this workload, and what needs a workload of its own; repeatable
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<Kind>,
    /// Measure only `agent run`, with many processes and with many that start
    #[arg(long, conflicts_with = "workloads")]
    scenes: bool,
    /// Number of windows with each profiler
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 2,
        conflicts_with = "quick"
    )]
    rounds: u32,
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Also write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A bench of its own.
#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Measure `agent run` beside large programs of Go, C++ and CPython, minute by minute
    Host(host::Options),
    /// Measure the kernel time of each recorded sample beside a neighbour that fills the caches, and
    /// what the start of the agent costs
    Samples(samples::Options),
    /// Measure what profiles of memory and exceptions cost, and explain, beside tracemalloc, memray and
    /// `perf trace`
    Memory(memory::Options),
    /// Measure what profiles of elapsed time and of the GIL cost, and how true they are, beside py-spy,
    /// austin and CPython's own profiler
    Waiting(waiting::Options),
    /// Measure what passes over the threads cost for each thread that rests, or wakes up
    Passes(passes::Options),
    /// Measure how long `agent dump` takes and what `agent top` costs, beside py-spy and CPython's own
    /// profiler
    Terminal(terminal::Options),
}

/// Measures, and prints the figures.
///
/// # Errors
///
/// When something could not be measured; the rest is printed first.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.part {
        Some(Part::Host(options)) => host::run(options),
        Some(Part::Samples(options)) => samples::run(options),
        Some(Part::Memory(options)) => memory::run(options),
        Some(Part::Waiting(options)) => waiting::run(options),
        Some(Part::Passes(options)) => passes::run(options),
        Some(Part::Terminal(options)) => terminal::run(options),
        None => overhead(options),
    }
}

fn overhead(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let pythons = pythons(options, &agent)?;
    let py_spy = match py_spy::ensure(&pythons[0].path) {
        Ok(program) => Some(program),
        Err(error) => {
            eprintln!("measuring without py-spy: {error:#}");
            None
        }
    };
    let plan = plan(options);
    let _accounting = Accounting::enable()?;

    let mut machine = Machine::before()?;
    let mut all = Vec::new();
    let mut failures = Vec::new();
    for (index, python) in pythons.iter().enumerate() {
        let version = python::full_version(python)?;
        let plan = match index {
            0 => plan.clone(),
            _ => plan.clone().further(),
        };
        let mut session = Session {
            agent: &agent,
            py_spy: py_spy.as_deref(),
            python,
            version: &version,
            plan: &plan,
            figures: Figures::default(),
            failures: Vec::new(),
        };
        session.run();
        failures.append(&mut session.failures);
        let figures = session.figures.0;
        all.push((version, figures));
    }
    machine.after()?;

    print(&machine, &pythons, py_spy.is_some(), &all);
    if let Some(path) = &options.json {
        let py_spy = py_spy.is_some().then_some(py_spy::VERSION);
        fs::write(path, json::document(&machine, py_spy, &all))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !failures.is_empty() {
        bail!("not everything could be measured:\n{}", failures.join("\n"));
    }
    Ok(())
}

fn plan(options: &Options) -> Plan {
    let mut plan = if options.quick {
        Plan::quick()
    } else {
        Plan::whole(options.rounds)
    };
    plan.only_scenes = options.scenes;
    if !options.workloads.is_empty() {
        plan.workloads.clone_from(&options.workloads);
    }
    plan
}

/// The interpreters to measure with, at least one.
fn pythons(options: &Options, agent: &Path) -> Result<Vec<Interpreter>> {
    if !options.pythons.is_empty() {
        return options
            .pythons
            .iter()
            .map(|path| Interpreter::at(path))
            .collect();
    }
    let mut pythons = vec![python::newest(agent)?];
    if !options.quick && !options.scenes {
        pythons.extend(python::old().filter(|old| old.minor != pythons[0].minor));
    }
    Ok(pythons)
}

fn print(
    machine: &Machine,
    pythons: &[Interpreter],
    has_py_spy: bool,
    all: &[(String, Vec<Figure>)],
) {
    println!("{machine}");
    if has_py_spy {
        println!("compared with py-spy {}", py_spy::VERSION);
    }
    for (python, (version, figures)) in pythons.iter().zip(all) {
        println!("\nCPython {version}, {}\n", python.path.display());
        print!("{}", Table(figures));
    }
}
