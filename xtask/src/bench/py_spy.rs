//! The peer that is compared: py-spy, from the Python Package Index.
//!
//! Invariants: one version for everybody; it is installed once per machine, in the cache, and only
//! ever seen whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::paths;
use crate::process::{capture, is_executable};

/// The version that is compared.
pub(super) const VERSION: &str = "0.4.3";

/// Finds or installs it, with an interpreter that can make virtual environments.
pub(super) fn ensure(python: &Path) -> Result<PathBuf> {
    let cache = paths::cache()?;
    let directory = cache.join(format!("py-spy-{VERSION}"));
    let program = directory.join("bin/py-spy");
    if is_executable(&program) {
        return Ok(program);
    }
    let unfinished = cache.join(format!("py-spy-{VERSION}.unfinished"));
    // Left from an attempt that was ended, or not there.
    drop(fs::remove_dir_all(&unfinished));
    capture(Command::new(python).args(["-m", "venv"]).arg(&unfinished))?;
    capture(
        Command::new(unfinished.join("bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            // Without a network it is missing, which need not take minutes.
            .args([
                "--retries",
                "1",
                "--timeout",
                "15",
                "--only-binary",
                ":all:",
            ])
            .arg(format!("py-spy=={VERSION}")),
    )?;
    fs::rename(&unfinished, &directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(program)
}
