//! `cargo xtask bench memory`: what profiles of memory and of exceptions cost the program that is
//! profiled, beside tracemalloc, memray and `perf trace -F all` in the same run, and what they explain
//! of its growth.
//!
//! Invariants: figures are printed, never asserted; what cannot run is printed with the reason.
//!
//! ```text
//! program ─► rise ─┐
//! growing ─► explained ─► table
//! ```
//!
//! Datadog's profiler is not in it: it needs a backend to send to, and no published figures of
//! what its profiles of memory cost were found.

mod contender;
mod explained;
mod program;
mod rise;
mod table;

use std::path::PathBuf;

use anyhow::{Result, bail};
use xtask::interpreters::Interpreter;
use xtask::process::is_root;

use super::super::build;
use super::machine::Machine;
use super::{memray, python};
use contender::Tools;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Run the programs with this interpreter instead of the newest; 3.8 or later
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Number of windows with each profiler
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: u32,
    /// Measure only programs whose names contain this, and what is explained of none
    #[arg(long, value_name = "TEXT")]
    program: Option<String>,
}

/// Measures each program with each profiler, and prints the tables.
///
/// # Errors
///
/// When nothing can be measured.
pub(super) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let python = match &options.python {
        Some(path) => Interpreter::at(path)?,
        None => python::newest(&agent)?,
    };
    let version = python::full_version(&python)?;
    let tools = tools(agent, python)?;

    let mut machine = Machine::before()?;
    let (mut columns, mut failures) = (Vec::new(), Vec::new());
    for program in &program::PROGRAMS {
        let is_wanted = |text: &String| program.name.contains(text.as_str());
        if options.program.as_ref().is_none_or(is_wanted) {
            eprintln!("measuring {}", program.name);
            match rise::measure(&tools, program, options.rounds) {
                Ok(measured) => columns.push((program.name, measured)),
                Err(error) => failures.push(format!("{}: {error:#}", program.name)),
            }
        }
    }
    let mut growths = Vec::new();
    if options.program.is_none() {
        for (nth, way) in (0..).zip(explained::WAYS) {
            eprintln!("growing: {way}");
            match explained::measure(&tools, nth, way) {
                Ok(growth) => growths.push(growth),
                Err(error) => failures.push(format!("{way}: {error:#}")),
            }
        }
    }
    machine.after()?;
    failures.extend(table::reasons(&columns, &growths));

    println!("{machine}");
    println!("CPython {version}, {}", tools.python.path.display());
    println!("memray {}; empty cells are not measured", memray::VERSION);
    let contenders = &program::CONTENDERS;
    for (title, text) in [
        (
            "The programs, per second of their CPU time; noise in %",
            table::programs(&columns),
        ),
        (
            "CPU time of the program for the same work rises by, in %",
            table::rises(contenders, &columns),
        ),
        (
            "CPU of the profiler itself, in % of a processor",
            table::own_cpu(contenders, &columns),
        ),
        (
            "Explained of the growth of a program, in % (what it grows by with a tool in it)",
            table::explained(&growths),
        ),
        ("What could not be measured", failures.join("\n")),
    ] {
        if !text.trim().is_empty() {
            println!("\n{title}\n\n{}", text.trim_end());
        }
    }
    Ok(())
}

fn tools(agent: PathBuf, python: Interpreter) -> Result<Tools> {
    Ok(match memray::ensure(&python.path) {
        Ok(path) => Tools {
            agent,
            python: Interpreter::at(&path)?,
            without_memray: None,
        },
        Err(error) => Tools {
            agent,
            python,
            without_memray: Some(format!("{error:#}")),
        },
    })
}
