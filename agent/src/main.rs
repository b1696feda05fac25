//! The command `agent`.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use agent::{
    cli,
    config::{CLUSTER_VARIABLES, Config, Sources},
    doctor, run, telemetry,
};
use anyhow::Context as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match cli::parse() {
        cli::Command::Capture(options) => run::run(&options).await,
        cli::Command::Host(options) => watch(&options).await,
        cli::Command::Report(options) => run::report_kept(&options, &folder()),
        cli::Command::Doctor { pid } => examine(pid).await,
    };
    result.unwrap_or_else(|error| {
        eprintln!("agent: {error:#}");
        ExitCode::FAILURE
    })
}

/// Samples every process of the host, or only says whether the configuration makes sense.
async fn watch(options: &cli::HostOptions) -> anyhow::Result<ExitCode> {
    let sources = Sources {
        file: options.config.clone(),
        variables: variables(),
        flags: options.keys.clone(),
        folder: folder(),
    };
    let read = || Config::read(&sources);
    let config = read()?;
    if options.check_config {
        writeln!(io::stdout(), "The configuration makes sense.").context("cannot write")?;
        return Ok(ExitCode::SUCCESS);
    }
    telemetry::start_logs(&config.log)?;
    run::run_host(config, read).await
}

/// Variables that may be meant for the agent; what is not text is none of them.
fn variables() -> Vec<(String, String)> {
    let all = env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            name.starts_with("AGENT_") || CLUSTER_VARIABLES.contains(&name.as_str())
        })
        .collect()
}

/// Where profiles are kept when no exporter is named: where systemd says, or where such things are
/// kept for the system or its users.
fn folder() -> PathBuf {
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

/// Says how a process is seen; fails when it cannot be profiled.
async fn examine(pid: u32) -> anyhow::Result<ExitCode> {
    let mut report = doctor::examine(pid);
    report.measure().await;
    write!(io::stdout(), "{report}").context("cannot write the report")?;
    Ok(if report.is_profilable() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
