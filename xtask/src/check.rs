//! Formatting, lints and tests of the whole project, as a developer and as CI runs them.
//!
//! Invariant: the kernel half is never part of a command for the host; it builds only for the
//! BPF target.

use std::env::consts::ARCH;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, Result, bail};

use crate::cross;
use crate::interpreters;
use crate::kernel_half::Tools;
use crate::paths;
use crate::process::{cargo, find_program, is_root, run};
use crate::setup;
use crate::tally::Tally;
use crate::vm;

/// Builds the agent's release binary and returns where it is.
///
/// # Errors
///
/// When the tools cannot be set up or it does not compile.
pub fn build() -> Result<PathBuf> {
    setup::kernel_half()?;
    run(cargo().args(["build", "--release", "--package", "agent"]))?;
    Ok(paths::agent_binary())
}

/// Formats everything, or only says whether everything is formatted.
///
/// # Errors
///
/// When it is not.
pub fn format(only_check: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["fmt", "--all"]);
    if only_check {
        command.arg("--check");
    }
    run(&mut command)
}

/// Lints the crates of the host.
///
/// # Errors
///
/// When there is a warning.
pub fn lint_host() -> Result<()> {
    run(cargo()
        .args(["clippy", "--release", "--workspace", "--exclude=agent-ebpf"])
        .args(["--all-targets", "--", "--deny", "warnings"]))
}

/// Lints the kernel half for its own target.
///
/// # Errors
///
/// When there is a warning.
pub fn lint_kernel_half(tools: &Tools) -> Result<()> {
    run(&mut tools.clippy(ARCH, &paths::target().join("kernel-half-clippy")))
}

/// Lints both halves for the architecture that this machine is not, having installed what that
/// needs.
///
/// # Errors
///
/// When something that it needs is missing, or does not compile without a warning.
pub fn lint_other_architecture(tools: &Tools) -> Result<()> {
    let other = cross::other();
    run(&mut tools.clippy(
        other.architecture,
        &paths::target().join("kernel-half-clippy"),
    ))?;
    other.ensure()?;
    run(&mut other.clippy())
}

/// Runs every test, those on the given kernels last, and adds them to `tally`.
///
/// # Errors
///
/// When the tests cannot be started; what failed is in the tally.
pub fn test(tally: &mut Tally, kernels: &[vm::Kernel]) -> Result<()> {
    setup::test_programs()?;
    let interpreters = beside(setup::programs_of_others, interpreters::all)?;
    let agent = build()?;
    let mut tests = cargo();
    tests
        .args(["test", "--release", "--workspace", "--exclude=agent-ebpf"])
        .arg("--no-fail-fast")
        .env(
            interpreters::VARIABLE,
            interpreters::variable(&interpreters)?,
        );
    if !is_root() {
        // Loading programs into the kernel needs root, compiling does not.
        let sudo = find_program("sudo").context("the tests need root: run them as root")?;
        let runner = format!("{} --preserve-env", sudo.display());
        let host = ARCH.to_uppercase();
        tests.env(
            format!("CARGO_TARGET_{host}_UNKNOWN_LINUX_GNU_RUNNER"),
            runner,
        );
    }
    tally.cargo_test(&mut tests)?;
    for &kernel in kernels {
        let outcome = vm::check(kernel, &agent, &interpreters);
        tally.check(&format!("linux_{kernel}"), outcome);
        let outcome = vm::check_processors(kernel, &agent, &interpreters);
        tally.check(&format!("linux_{kernel}_processors"), outcome);
    }
    Ok(())
}

/// Does two things at once, of which one mostly waits for the network while the other compiles, and
/// gives what the second does.
fn beside<T>(first: fn() -> Result<()>, second: fn() -> Result<T>) -> Result<T> {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let result = second()?;
        match first.join() {
            Ok(first) => first.map(|()| result),
            Err(_) => bail!("a thread panicked"),
        }
    })
}

/// Everything: formatting, lints, tests.
///
/// # Errors
///
/// When something cannot be started; what failed is in the tally.
pub fn continuous_integration(tally: &mut Tally, kernels: &[vm::Kernel]) -> Result<()> {
    let tools = setup::kernel_half()?;
    setup::linters(&tools)?;
    tally.check("formatting", format(true));
    tally.check("lints_host", lint_host());
    tally.check("lints_kernel_half", lint_kernel_half(&tools));
    tally.check("lints_other_architecture", lint_other_architecture(&tools));
    test(tally, kernels)
}
