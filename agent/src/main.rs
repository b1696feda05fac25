//! The command `agent`.

use std::process::ExitCode;

use agent::{cli, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match cli::parse() {
        cli::Command::Capture(options) => run::run(&options).await,
        cli::Command::Doctor { pid } => Err(anyhow::anyhow!("not yet: {pid}")),
    };
    result.unwrap_or_else(|error| {
        eprintln!("agent: {error:#}");
        ExitCode::FAILURE
    })
}
