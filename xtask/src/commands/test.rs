//! Runs the tests, on this machine's kernel and in virtual machines on others.

use std::env::consts::ARCH;
use std::process::Command;
use std::{slice, thread};

use anyhow::{Context as _, Result, bail};
use xtask::interpreters::{self, Interpreter};
use xtask::process::{cargo, find_program, is_root};
use xtask::vm::{self, Kernel};

use super::{Results, build, setup, soak};

/// The programs among the tests that compare with recordings and run in seconds.
const TEST_PROGRAMS: [&str; 6] = ["golden", "graph", "house", "native", "walk", "words"];

/// A test that captures a profile, and the program that has it.
const CAPTURE: (&str, &str) = (
    "end_to_end",
    "call_tree::stacks_are_exactly_those_of_the_source",
);

/// Runs every test, those on the given kernels last, and adds them to `results`.
///
/// # Errors
///
/// When the tests cannot be started; what failed is in the results.
pub(crate) fn all(results: &mut Results, kernels: &[Kernel]) -> Result<()> {
    let interpreters = results.step("setup of the tests", || {
        setup::test_programs()?;
        beside(setup::reference_tools, interpreters::all)
    })?;
    let agent = results.step("build", build::agent)?;
    let mut tests = on_host(&interpreters)?;
    tests
        .args(["--workspace", "--exclude=agent-ebpf"])
        .arg("--no-fail-fast");
    results.cargo_test(&mut tests)?;
    soak::check(results, &agent);
    for &kernel in kernels {
        results.check(&format!("linux_{kernel}"), || {
            vm::check(kernel, &agent, &interpreters)
        });
        results.check(&format!("linux_{kernel}_processors"), || {
            vm::check_processors(kernel, &agent, &interpreters)
        });
    }
    Ok(())
}

/// Runs the tests that need no other programs, and one capture with the distribution's interpreter.
///
/// # Errors
///
/// When the tests cannot be started; what failed is in the results.
pub(crate) fn fast(results: &mut Results) -> Result<()> {
    let interpreter = results.step("setup of the tests", interpreters::distribution)?;
    let tests = || on_host(slice::from_ref(&interpreter));
    results.cargo_test(
        tests()?
            .args(["--workspace", "--exclude=agent-ebpf", "--no-fail-fast"])
            .args(["--lib", "--bins"])
            .args(TEST_PROGRAMS.iter().flat_map(|name| ["--test", name])),
    )?;
    results.cargo_test(
        tests()?
            .args(["--package", "agent", "--test", CAPTURE.0])
            .args(["--", "--exact", CAPTURE.1]),
    )
}

/// `cargo test` with the right to load BPF programs, for these interpreters.
fn on_host(interpreters: &[Interpreter]) -> Result<Command> {
    let mut tests = cargo();
    tests.args(["test", "--release"]).env(
        interpreters::VARIABLE,
        interpreters::variable(interpreters)?,
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
    Ok(tests)
}

/// Runs two functions at once, of which one mostly waits for the network while the other compiles,
/// and returns the result of the second.
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
