//! The command `agent`.

use std::process::ExitCode;

use agent::{cli, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = cli::parse();
    match run::run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
