//! `agent run`: the agent of a host, or only a check of its configuration.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;

use super::{cli::RunOptions, standard_output::print};
use crate::{
    config::{CLUSTER_VARIABLES, Config, Sources, VARIABLE_PREFIX},
    daemon,
};

/// Samples every process of the host until a signal ends it; `folder` is that of the profiles if
/// none is configured.
///
/// # Errors
///
/// One sentence that says what to do.
pub async fn run(options: &RunOptions, folder: PathBuf) -> Result<ExitCode> {
    let sources = sources(options, folder);
    let read = || Config::read(&sources);
    let config = read()?;
    if options.check_config {
        daemon::check(&config)?;
        for warning in &config.warnings {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "agent: {warning}");
        }
        print("configuration is valid\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    Box::pin(daemon::run(config, read)).await
}

/// What the configuration is read from; `folder` is that of the profiles if none is configured.
pub(super) fn sources(options: &RunOptions, folder: PathBuf) -> Sources {
    Sources {
        file: options.config.clone(),
        variables: variables(),
        flags: options.keys.clone(),
        folder,
        socket: socket(),
    }
}

/// The Unix socket if none is configured: where systemd says, else where sockets of the system or of
/// its users are.
fn socket() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = if let Some(folder) = variable("RUNTIME_DIRECTORY") {
        PathBuf::from(folder)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/agent")
    } else {
        PathBuf::from(variable("XDG_RUNTIME_DIR")?).join("agent")
    };
    Some(folder.join("agent.sock"))
}

/// Environment variables that the configuration may be in; what is not UTF-8 is none of them.
fn variables() -> Vec<(String, String)> {
    let all = env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            name.starts_with(VARIABLE_PREFIX) || CLUSTER_VARIABLES.contains(&name.as_str())
        })
        .collect()
}
