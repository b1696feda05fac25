//! What must hold for a change.

use anyhow::Result;
use xtask::vm::Kernel;

use super::{Results, lint, setup, test};

/// Checks formatting and lints, and runs all tests.
///
/// # Errors
///
/// When something cannot be started; what failed is in the results.
pub(crate) fn run(results: &mut Results, kernels: &[Kernel]) -> Result<()> {
    let tools = setup::bpf()?;
    setup::linters(&tools)?;
    results.check("formatting", lint::format(true));
    results.check("lints_host", lint::host());
    results.check("lints_bpf", lint::bpf(&tools));
    results.check("lints_other_architecture", lint::other_architecture(&tools));
    test::all(results, kernels)
}
