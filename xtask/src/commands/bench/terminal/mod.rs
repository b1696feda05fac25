//! `cargo xtask bench terminal`: how long `agent dump` takes, and what `agent top` costs and how soon it shows something,
//! beside py-spy and the live view of CPython 3.15's profiler in the same run.
//!
//! Invariants: figures are printed, never asserted; what cannot run is printed with the reason.
//!
//! ```text
//! mostly_idle.py ─► dump ─┐
//! threads.py ─► live ◄─ screen (tmux) ─► table
//! ```

mod dump;
mod live;
mod screen;
mod table;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use xtask::interpreters;
use xtask::process::is_root;

use super::super::build;
use super::machine::Machine;
use super::workload::Workload;
use super::{py_spy, python};
use dump::Snapshot;
use live::View;

/// The interpreters: one that py-spy can read, and the one that has a live view of its own.
const INTERPRETERS: [(&str, &[Snapshot], &[View]); 2] = [
    ("3.13", &Snapshot::ALL, &[View::Agent, View::PySpy]),
    ("3.15-sid", &[], &[View::Agent, View::Tachyon]),
];

/// Threads of the process of which dumps are taken, besides the one that computes.
const THREADS: u32 = 99;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Number of dumps with each profiler
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    dumps: u32,
    /// Number of windows with each live view
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: u32,
    /// Length of each window; an hour shows how the memory grows
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    window: Duration,
    /// Samples per second of live views
    #[arg(long, value_name = "HERTZ", default_value_t = 100)]
    rate: u32,
}

/// Where the profilers are.
#[derive(Debug)]
struct Tools {
    agent: PathBuf,
    py_spy: PathBuf,
}

/// Measures each profiler on each interpreter, and prints the tables.
///
/// # Errors
///
/// When nothing can be measured.
pub(super) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let mut tables = String::new();
    let mut machine = Machine::before()?;
    for (name, snapshots, views) in INTERPRETERS {
        let interpreter = interpreters::named(name)?;
        let version = python::full_version(&interpreter)?;
        eprintln!("measuring with CPython {version}");
        let tools = Tools {
            agent: agent.clone(),
            // It reads other processes whatever it was installed with.
            py_spy: py_spy::ensure(&interpreters::named(INTERPRETERS[0].0)?.path)
                .context("py-spy cannot be installed")?,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(tables, "\nCPython {version}");
        if !snapshots.is_empty() {
            let workload = Workload::start(&interpreter, "mostly_idle", Some(THREADS))?;
            let measured = dump::measure(&tools, &workload, snapshots, options.dumps);
            tables += &table::dumps(&measured);
        }
        let workload = Workload::start(&interpreter, "threads", None)?;
        tables += &table::views(&live::measure(&tools, &workload, views, options)?);
    }
    machine.after()?;

    println!("{machine}");
    println!(
        "py-spy {}; {} dumps of {} threads, of which {:.0} MB of the memory are whoever starts them; {} Hz; \
         {} windows of {:?} each",
        py_spy::VERSION,
        options.dumps,
        THREADS + 1,
        dump::floor()?,
        options.rate,
        options.rounds,
        options.window
    );
    print!("{tables}");
    Ok(())
}
