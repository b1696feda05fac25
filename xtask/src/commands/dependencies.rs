//! Checks what the agent depends on, by the rules in `deny.toml`.

use anyhow::Result;
use clap::Args;
use xtask::cargo_tools::CARGO_DENY;
use xtask::process::run;

/// Options of `cargo xtask dependencies`.
#[derive(Args)]
pub(crate) struct Options {
    /// Check for known vulnerabilities too, by a database that is fetched from GitHub
    #[arg(long)]
    advisories: bool,
}

/// Checks licenses, banned crates and sources of all dependencies.
pub(crate) fn check(options: &Options) -> Result<()> {
    let mut deny = CARGO_DENY.command()?;
    deny.args(["--locked", "--config", "deny.toml"])
        .args(["check", "licenses", "bans", "sources"]);
    if options.advisories {
        deny.arg("advisories");
    }
    run(&mut deny)
}
