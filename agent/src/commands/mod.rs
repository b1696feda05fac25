//! The commands: one file each, from its options to its exit status.

mod cli;
mod deadlock;
mod diff;
pub mod doctor;
mod dump;
mod examine;
mod failure;
mod gil;
mod lock;
mod output;
mod outputs;
mod progress;
mod record;
mod report;
mod run;
mod sampling;
mod sources;
mod standard_output;
pub mod summary;
mod terminal;
mod top;
mod warnings;

use std::{env, io, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;

#[cfg(feature = "testing")]
pub use self::cli::check_command_line;
use self::{cli::Command, warnings::Warnings};
use crate::{bpf, process::fuse, targets::launch};

/// Most threads for work that may block on a disk.
///
/// tokio starts another one whenever none is idle at this moment, so that exporters which write one file
/// after the other would have ever more of them. Each exporter uses two at most; a disk that hangs keeps
/// as many.
const MAX_BLOCKING_THREADS: usize = 16;

/// Carries out the command line, and prints what goes wrong as one sentence.
#[must_use]
pub fn main() -> ExitCode {
    if env::args_os()
        .nth(1)
        .is_some_and(|first| first == fuse::SUBCOMMAND)
    {
        // It opens files of others, and no perf events.
        bpf::give_up_sys_admin();
        fuse::run();
        return ExitCode::SUCCESS;
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run_command(cli::parse())),
        Err(error) => Err(error).context("cannot start"),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{}", failure::text(&error));
        let launch = error.downcast_ref::<launch::Error>();
        launch.map_or(ExitCode::FAILURE, |error| error.exit_status().into())
    })
}

async fn run_command(command: Command) -> Result<ExitCode> {
    // The agent of a host has logs.
    let warnings = (!matches!(command, Command::Run(_))).then(Warnings::keep);
    let result = carry_out(command).await;
    if let Some(warnings) = warnings {
        warnings.print(&mut io::stderr().lock());
    }
    result
}

async fn carry_out(command: Command) -> Result<ExitCode> {
    match command {
        Command::Record(options) => record::run(&options).await,
        Command::Run(options) => Box::pin(run::run(&options, profiles_folder())).await,
        Command::Report(options) => report::run(&options, &profiles_folder()),
        Command::Top(options) => Box::pin(top::run(&options)).await,
        Command::Gil(options) => gil::run(&options).await,
        Command::Lock(options) => lock::run(&options).await,
        Command::Dump(options) => dump::run(&options).await,
        Command::DumpCore(options) => dump::run_core(&options),
        Command::Doctor(options) => doctor::run(&options, profiles_folder()).await,
        Command::Completions(shell) => print_bytes(&cli::completions(shell)),
        Command::Man => print_bytes(&cli::man_page()?),
    }
}

/// Writes a whole text to standard output.
fn print_bytes(text: &[u8]) -> Result<ExitCode> {
    standard_output::print_by(|output| output.write_all(text))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of profiles if none is configured: where systemd says, else where state is kept for
/// the system or for its users.
fn profiles_folder() -> PathBuf {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let state = if let Some(folder) = variable("STATE_DIRECTORY") {
        PathBuf::from(folder)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/agent")
    } else if let Some(folder) = variable("XDG_STATE_HOME") {
        PathBuf::from(folder).join("agent")
    } else {
        let home = variable("HOME").unwrap_or_else(|| "/".into());
        PathBuf::from(home).join(".local/state/agent")
    };
    state.join("profiles")
}
