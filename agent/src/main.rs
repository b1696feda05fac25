//! The command `agent`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use agent::{cli, doctor, run};
use anyhow::Context as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match cli::parse() {
        cli::Command::Capture(options) => run::run(&options).await,
        cli::Command::Doctor { pid } => examine(pid).await,
    };
    result.unwrap_or_else(|error| {
        eprintln!("agent: {error:#}");
        ExitCode::FAILURE
    })
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
