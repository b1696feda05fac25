//! What must hold for a change.

use std::thread;

use anyhow::{Result, bail};
use build_bpf::Tools;
use xtask::vm::Kernel;

use super::fuzz::Fuzzer;
use super::{Results, lint, setup, test};

/// Checks formatting and lints, fuzzes every parser for some seconds, and runs all tests.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run(results: &mut Results, kernels: &[Kernel]) -> Result<()> {
    let tools = set_up(results)?;
    // Most of the time of a lint one processor is idle.
    let fuzzer = thread::scope(|scope| {
        let fuzzer = scope.spawn(Fuzzer::for_check);
        lint_host(results, &tools);
        results.check("lints_other_architecture", || {
            lint::other_architecture(&tools)
        });
        fuzzer.join()
    });
    results.check("fuzzing", || match fuzzer {
        Ok(fuzzer) => fuzzer?.check(),
        Err(_) => bail!("a thread panicked"),
    });
    test::all(results, kernels)
}

/// Checks what a small change is likely to break, in a few minutes: formatting, lints for this
/// machine's architecture, unit and golden tests, the structure, and one capture.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run_fast(results: &mut Results) -> Result<()> {
    let tools = set_up(results)?;
    lint_host(results, &tools);
    test::fast(results)
}

fn set_up(results: &mut Results) -> Result<Tools> {
    results.step("setup of the tools", || {
        let tools = setup::bpf()?;
        setup::linters(&tools)?;
        Ok(tools)
    })
}

fn lint_host(results: &mut Results, tools: &Tools) {
    results.check("formatting", || lint::format(true));
    results.check("lints_host", lint::host);
    results.check("lints_bpf", || lint::bpf(tools));
}
