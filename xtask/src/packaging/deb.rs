//! Makes the Debian package, as `agent/Cargo.toml` describes it.
//!
//! Invariant: the pinned cargo-deb is built once per machine, in the cache directory, and is only
//! used when it starts and prints the pinned version.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::paths;
use crate::process::{capture, cargo, run};

/// The version of cargo-deb that makes the package.
pub const VERSION: &str = "3.8.0";

/// Makes the package of an agent that is already built, at [`paths::agent_binary`], and returns its
/// path; `version` replaces the version of the crate.
///
/// # Errors
///
/// When it cannot be made.
pub fn make(version: Option<&str>) -> Result<PathBuf> {
    let mut command = Command::new(tool()?);
    command
        .current_dir(paths::workspace())
        .env("CARGO", cargo().get_program())
        .args(["--package", "agent", "--no-build", "--strip", "--quiet"]);
    if let Some(version) = version {
        command.args(["--deb-version", version]);
    }
    // It prints the path of the package.
    Ok(paths::workspace().join(capture(&mut command)?))
}

/// Finds or builds cargo-deb.
fn tool() -> Result<PathBuf> {
    let root = paths::cache()?.join(format!("cargo-deb-{VERSION}"));
    let tool = root.join("bin/cargo-deb");
    let answer = capture(Command::new(&tool).arg("--version"));
    if !answer.is_ok_and(|answer| answer.contains(VERSION)) {
        println!("building cargo-deb {VERSION}, once on this machine");
        let mut install = cargo();
        install
            .args(["install", "cargo-deb", "--version", VERSION, "--locked"])
            .args(["--force", "--quiet", "--root"])
            .arg(&root);
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS"] {
            install.env_remove(name);
        }
        run(&mut install)?;
    }
    Ok(tool)
}
