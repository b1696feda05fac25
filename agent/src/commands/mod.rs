//! The commands: one file each, from its options to its exit status.

mod cli;
pub mod doctor;
mod output;
mod progress;
mod record;
mod report;
mod run;
pub mod summary;

use std::{env, path::PathBuf, process::ExitCode};

use cli::Command;

/// Carries out the command line, and prints what goes wrong as one sentence.
pub async fn main() -> ExitCode {
    let result = match cli::parse() {
        Command::Record(options) => record::run(&options).await,
        Command::Run(options) => run::run(&options, profiles_folder()).await,
        Command::Report(options) => report::run(&options, &profiles_folder()),
        Command::Doctor { pid } => doctor::run(pid).await,
    };
    result.unwrap_or_else(|error| {
        eprintln!("agent: {error:#}");
        ExitCode::FAILURE
    })
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
