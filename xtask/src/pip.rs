//! Programs from the Python Package Index.
//!
//! Invariants: versions are pinned; each program is installed once per machine, or once for an
//! interpreter, in a virtual environment in the cache, by one thread of one process at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::paths;
use crate::process::{capture, is_executable};

/// Finds or installs a package with an interpreter that can make virtual environments, and returns
/// the directory of its own environment.
///
/// # Errors
///
/// When it is not there and cannot be installed.
pub fn ensure(python: &Path, package: &str, version: &str) -> Result<PathBuf> {
    install(python, package, version, &format!("{package}-{version}"))
}

/// The same in an environment of this very interpreter, for what its programs import.
///
/// # Errors
///
/// As [`ensure`].
pub fn ensure_for(python: &Path, package: &str, version: &str) -> Result<PathBuf> {
    let of = python.display().to_string().replace('/', "-");
    install(
        python,
        package,
        version,
        &format!("{package}-{version}{of}"),
    )
}

fn install(python: &Path, package: &str, version: &str, name: &str) -> Result<PathBuf> {
    let cache = paths::cache()?;
    let directory = cache.join(name);
    let is_there = || is_executable(&directory.join("bin/python"));
    if is_there() {
        return Ok(directory);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = File::create(cache.join("pip.lock"))?;
    lock.lock()?;
    // Whoever held the lock may have installed it.
    if is_there() {
        return Ok(directory);
    }
    let unfinished = cache.join(format!("{name}.unfinished"));
    // A remainder of an interrupted attempt, or missing.
    drop(fs::remove_dir_all(&unfinished));
    capture(Command::new(python).args(["-m", "venv"]).arg(&unfinished))?;
    capture(
        Command::new(unfinished.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            // Without a network it is missing, which need not take minutes.
            .args(["--retries", "1", "--timeout", "15"])
            .args(["--only-binary", ":all:"])
            .arg(format!("{package}=={version}")),
    )?;
    fs::rename(&unfinished, &directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}
