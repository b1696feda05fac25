//! The interpreters that run the workloads.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use xtask::interpreters::{Interpreter, pyenv};
use xtask::process::{capture, is_executable};

use super::agent::{Capture, Stacks};
use super::bpf::Accounting;
use super::workload::{Workload, directory};

/// Minor versions of Python 3 that are looked for, the newest first.
const LOOKED_FOR: std::ops::RangeInclusive<u32> = 6..=30;

/// Candidates for an old version, from before frames lay side by side, the best first.
const OLD: [u32; 2] = [8, 10];

/// For example `3.13.0`.
pub(super) fn full_version(python: &Interpreter) -> Result<String> {
    let script = "import platform; print(platform.python_version())";
    capture(Command::new(&python.path).args(["-c", script]))
}

/// The newest interpreter on this machine that the agent supports.
pub(super) fn newest(agent: &Path) -> Result<Interpreter> {
    // The first sample of a capture is a run of its program.
    let _accounting = Accounting::enable()?;
    let mut failure = anyhow!("install python3");
    for python in LOOKED_FOR.rev().filter_map(find) {
        match try_it(agent, &python) {
            Ok(()) => return Ok(python),
            Err(error) => failure = error.context(format!("with {}", python.path.display())),
        }
    }
    Err(failure.context("the agent supports no Python 3 of this machine"))
}

/// An old version, if this machine has one.
pub(super) fn old() -> Option<Interpreter> {
    OLD.into_iter().find_map(find)
}

/// Python 3 of this minor version in pyenv or in `PATH`.
fn find(minor: u32) -> Option<Interpreter> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path =
        env::split_paths(&path).map(|directory| directory.join(format!("python3.{minor}")));
    pyenv::builds()
        .into_iter()
        .filter(|build| (build.version.0, build.version.1) == (3, minor))
        .map(|build| build.path)
        .chain(in_path)
        .filter(|program| is_executable(program))
        // A shim of a version that is not installed does not run.
        .find_map(|program| Interpreter::at(&program).ok())
}

/// Profiles an idle process for a moment.
fn try_it(agent: &Path, python: &Interpreter) -> Result<()> {
    let sleeper = Workload::start(python, "asleep", None)?;
    let output = directory()?.join("supported.folded");
    let duration = std::time::Duration::from_millis(500);
    Capture::start(agent, sleeper.pid(), 99, duration, &output, Stacks::Whole)?.finish()?;
    Ok(())
}
