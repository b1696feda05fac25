//! Records the sessions that the agent's golden tests replay.
//!
//! Invariant: the agent that records is built in a target directory of its own; the one that is
//! shipped has no code for it.

use anyhow::Result;
use xtask::process::{as_root, cargo, run};
use xtask::{interpreters, paths};

use super::setup;

/// The recorded interpreter: one that can write perf maps.
const INTERPRETER: &str = "3.12";

/// Records a capture and the agent of a host into `agent/tests/golden/data`.
///
/// # Errors
///
/// When the agent cannot be built or recorded.
pub(crate) fn record() -> Result<()> {
    setup::bpf()?;
    let interpreter = interpreters::named(INTERPRETER)?;
    let target = paths::target().join("recorder");
    run(cargo()
        .args(["build", "--release", "--package", "agent"])
        .args(["--features", "recorder", "--bin", "agent"])
        .args(["--example", "record-fixtures", "--target-dir"])
        .arg(&target))?;
    let folder = target.join("release");
    let mut recorder = as_root(folder.join("examples/record-fixtures"), false)?;
    run(recorder.arg(folder.join("agent")).arg(interpreter.path))?;
    println!("to update the results: AGENT_BLESS=1 cargo test --release -p agent --test golden");
    Ok(())
}
