//! What must hold for a change.

use anyhow::Result;
use build_bpf::Tools;
use xtask::vm::Kernel;

use super::{Results, fuzz, lint, setup, test};

/// Checks formatting and lints, fuzzes every parser for some seconds, and runs all tests.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run(results: &mut Results, kernels: &[Kernel]) -> Result<()> {
    let tools = lint_host(results)?;
    results.check("lints_other_architecture", || {
        lint::other_architecture(&tools)
    });
    fuzz::check(results);
    test::all(results, kernels)
}

/// Checks what a small change is likely to break, in a few minutes: formatting, lints for this
/// machine's architecture, unit and golden tests, the structure, and one capture.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run_fast(results: &mut Results) -> Result<()> {
    lint_host(results)?;
    test::fast(results)
}

fn lint_host(results: &mut Results) -> Result<Tools> {
    let tools = results.step("setup of the tools", || {
        let tools = setup::bpf()?;
        setup::linters(&tools)?;
        Ok(tools)
    })?;
    results.check("formatting", || lint::format(true));
    results.check("lints_host", lint::host);
    results.check("lints_bpf", || lint::bpf(&tools));
    Ok(tools)
}
