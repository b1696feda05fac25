//! `cargo xtask bench passes`: what the passes over the threads of waiting profiles cost for each thread that they visit, of
//! one that has not run since the last pass and of one that has.
//!
//! Invariants: figures are printed, never asserted; what a pass costs is the CPU time of the thread that makes them, as the
//! agent counts it, and that of the whole agent.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use xtask::interpreters::{self, Interpreter};
use xtask::process::is_root;

use super::super::build;
use super::machine::Machine;
use super::workload::{Workload, directory};
use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::proc;

/// How long the agent runs before anything is measured: it has read all stacks by then.
const WARM_UP: Duration = Duration::from_secs(10);

/// Threads, and whether they wake up again and again.
const PROGRAMS: [(u32, bool); 3] = [(500, false), (5000, false), (500, true)];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Passes per second, as long as they cost no more than they may
    #[arg(long, value_name = "HERTZ", default_value_t = 20)]
    rate: u32,
    /// How long each program is measured
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    window: Duration,
}

/// What passes over the threads of a program cost.
struct Cost {
    /// Passes per second.
    passes: f64,
    /// CPU time of the thread that makes them, in microseconds for each thread that it visits.
    pass_us: f64,
    /// The same of the whole agent.
    agent_us: f64,
    /// CPU time of the whole agent, in percent of a processor.
    share: f64,
}

/// Measures each program, and prints a table.
///
/// # Errors
///
/// When one cannot be measured.
pub(super) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let python = interpreters::distribution()?;
    let mut machine = Machine::before()?;
    let mut rows = Vec::new();
    for (threads, wake) in PROGRAMS {
        let cost = measure(&agent, &python, threads, wake, options)?;
        let what = if wake { "wake up" } else { "rest" };
        rows.push(format!(
            "| {threads} threads that {what} | {:.1} | {:.2} µs | {:.2} µs | {:.1} % |",
            cost.passes, cost.pass_us, cost.agent_us, cost.share
        ));
    }
    machine.after()?;
    println!("{machine}");
    println!("\n| | passes per second | a visit | with all else | of a processor |");
    println!("|---|---|---|---|---|\n{}", rows.join("\n"));
    Ok(())
}

fn measure(
    agent: &Path,
    python: &Interpreter,
    threads: u32,
    wake: bool,
    options: &Options,
) -> Result<Cost> {
    let argument = threads * 10 + u32::from(wake);
    let _workload = Workload::start(python, "resting", Some(argument))?;
    let rate = options.rate.to_string();
    let arguments = ["--events", "wall", "--rate", &rate].map(str::to_owned);
    let daemon = Daemon::start(agent, &directory()?, &arguments)?;
    thread::sleep(WARM_UP);
    let (cpu_before, before) = (proc::cpu_time(daemon.pid())?, daemon.metrics()?);
    thread::sleep(options.window);
    let (cpu_after, after) = (proc::cpu_time(daemon.pid())?, daemon.metrics()?);
    let gained = |name: &str| after.gained(&before, name);
    let cpu = cpu_after.saturating_sub(cpu_before).as_secs_f64();
    let visits = gained("profiling_agent_thread_visits_total")?;
    let least = f64::from(threads) * gained("profiling_agent_passes_total")?;
    ensure!(
        visits >= least * 0.99 && least > 0.0,
        "{visits} visits of {least}"
    );
    let window = options.window.as_secs_f64();
    Ok(Cost {
        passes: gained("profiling_agent_passes_total")? / window,
        pass_us: gained("profiling_agent_pass_cpu_seconds_total")? * 1e6 / visits,
        agent_us: cpu * 1e6 / visits,
        share: 100.0 * cpu / window,
    })
}
