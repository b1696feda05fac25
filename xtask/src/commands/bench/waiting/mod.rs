//! `cargo xtask bench waiting`: what profiles of elapsed time and of the GIL cost the program that is profiled, and how
//! far they are from what it stamps itself, beside py-spy, austin and the profiler of CPython 3.15 in the same run.
//!
//! Invariants: figures are printed, never asserted; what cannot run is printed with the reason.
//!
//! ```text
//! waits.py ─► window (contender, stamps, found) ─► table
//! ```

mod contender;
mod found;
mod stamps;
mod table;
mod window;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use xtask::interpreters::{self, Interpreter};
use xtask::pip;
use xtask::process::is_root;

use super::super::build;
use super::machine::Machine;
use super::workload::Workload;
use super::{py_spy, python};
use contender::{AUSTIN_VERSION, Contender, Tools};

/// The interpreters: one that py-spy and austin can read, and the one that has a sampling profiler of its own.
const INTERPRETERS: [(&str, &[Contender]); 2] = [
    (
        "3.13",
        &[
            Contender::Agent("wall"),
            Contender::Traced("wall"),
            Contender::PySpy(&["--idle"]),
            Contender::PySpy(&["--idle", "--nonblocking"]),
            Contender::Austin,
            Contender::Agent("gil-held"),
            Contender::PySpy(&["--gil"]),
            Contender::Agent("wall,off-cpu,gil,gil-held,lock,run-queue"),
        ],
    ),
    (
        "3.15-sid",
        &[
            Contender::Agent("wall"),
            Contender::Tachyon("wall"),
            Contender::Agent("gil-held"),
            Contender::Tachyon("gil"),
        ],
    ),
];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Number of windows with each profiler
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: u32,
    /// Samples per second and thread
    #[arg(long, value_name = "HERTZ", default_value_t = 100)]
    rate: u32,
    /// Length of each window
    #[arg(long, default_value = "8s", value_parser = humantime::parse_duration)]
    window: Duration,
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
    let mut tables = Vec::new();
    let mut machine = Machine::before()?;
    for (name, contenders) in INTERPRETERS {
        let python = interpreters::named(name)?;
        let version = python::full_version(&python)?;
        eprintln!("measuring with CPython {version}");
        let tools = tools(agent.clone(), &python);
        let workload = Workload::start(&python, "waits", None)?;
        let measured = window::measure(&tools, &workload, contenders, options)?;
        tables.push((version, measured));
    }
    machine.after()?;

    println!("{machine}");
    println!(
        "py-spy {}, austin {AUSTIN_VERSION}; {} Hz; {} windows of {:?} each",
        py_spy::VERSION,
        options.rate,
        options.rounds,
        options.window
    );
    for (version, measured) in tables {
        println!(
            "\nCPython {version}\n\n{}",
            table::text(&measured).trim_end()
        );
    }
    Ok(())
}

/// Where the profilers are, or why they are not there.
fn tools(agent: PathBuf, python: &Interpreter) -> Tools {
    let of_root = python.root().is_some();
    let install = |package: &str, version: &str| {
        if of_root {
            bail!("not tried with this interpreter");
        }
        Ok(pip::ensure(&python.path, package, version)?.join("bin"))
    };
    Tools {
        agent,
        py_spy: install("py-spy", py_spy::VERSION).map(|bin| bin.join("py-spy")),
        austin: install("austin-dist", AUSTIN_VERSION).map(|bin| bin.join("austin")),
    }
}
