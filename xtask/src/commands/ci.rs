//! What must hold for a change.

use std::thread;

use anyhow::{Result, bail};
use build_bpf::Tools;
use xtask::architecture::Architecture;

use super::fuzz::Fuzzer;
use super::{Results, lint, setup, test};

/// Checks formatting and lints, fuzzes every parser for some seconds, and runs all tests.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run(results: &mut Results, tests: &test::Options) -> Result<()> {
    let interpreters = thread::scope(|scope| {
        // Downloads and `configure` leave processors to the compiler.
        let programs = scope.spawn(test::set_up);
        let tools = set_up(results)?;
        results.check("formatting", || lint::format(true));
        // First, because the tests share the dependencies that it compiles.
        results.check("fuzzing", || Fuzzer::for_check()?.check());
        lint_host(results, &tools);
        results.check("lints_bpf_other_architecture", || {
            lint::bpf(&tools, Architecture::other())
        });
        results.step("compilation of the tests", test::compile)?;
        results.step("setup of the tests", || match programs.join() {
            Ok(interpreters) => interpreters,
            Err(_) => bail!("a thread panicked"),
        })
    })?;
    test::all(results, tests, interpreters)
}

/// Checks what a small change is likely to break, in a few minutes: formatting, lints for this
/// machine's architecture, unit and golden tests, the structure, and one capture.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run_fast(results: &mut Results) -> Result<()> {
    let tools = set_up(results)?;
    results.check("formatting", || lint::format(true));
    lint_host(results, &tools);
    test::fast(results)
}

fn set_up(results: &mut Results) -> Result<Tools> {
    results.step("setup of the tools", || {
        let tools = setup::bpf()?;
        setup::linters(&tools)?;
        // Their lint compiles libFuzzer.
        setup::fuzzers()?;
        Ok(tools)
    })
}

fn lint_host(results: &mut Results, tools: &Tools) {
    results.check("lints_host", lint::host);
    results.check("lints_bpf", || lint::bpf(tools, Architecture::host()));
}
