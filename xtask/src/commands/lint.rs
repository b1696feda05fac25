//! Formatting and lints.
//!
//! Invariant: no command for the host's target includes the BPF programs, which only build for the
//! BPF target.

use anyhow::Result;
use build_bpf::Tools;
use xtask::architecture::Architecture;
use xtask::paths;
use xtask::process::{cargo, run};

use super::setup;

/// Formats all crates, or only checks whether they are formatted.
pub(crate) fn format(only_check: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["fmt", "--all"]);
    if only_check {
        command.arg("--check");
    }
    run(&mut command)
}

/// Lints everything, for this machine's architecture and for the other one.
pub(crate) fn clippy() -> Result<()> {
    let tools = setup::bpf()?;
    setup::linters(&tools)?;
    setup::fuzzers()?;
    host()?;
    bpf(&tools, Architecture::host())?;
    other_architecture(&tools)
}

/// Lints the crates that are built for the host; warnings are errors.
pub(crate) fn host() -> Result<()> {
    run(cargo()
        .args(["clippy", "--release", "--workspace", "--exclude=agent-ebpf"])
        .args(["--all-targets", "--", "--deny", "warnings"]))
}

/// Lints the BPF programs for an architecture.
pub(crate) fn bpf(tools: &Tools, architecture: Architecture) -> Result<()> {
    run(&mut tools.clippy(architecture.name, &paths::target().join("bpf-clippy")))
}

/// Lints the BPF programs and the agent for the architecture that this machine does not have, and
/// installs what that needs.
fn other_architecture(tools: &Tools) -> Result<()> {
    let other = Architecture::other();
    bpf(tools, other)?;
    other.ensure_compilers()?;
    run(&mut other.clippy())
}
