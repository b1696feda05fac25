//! py-spy, from the Python Package Index, for comparison.

use std::path::{Path, PathBuf};

use anyhow::Result;
use xtask::pip;

/// The version that is compared.
pub(super) const VERSION: &str = "0.4.3";

/// Finds or installs it, with an interpreter that can make virtual environments.
pub(super) fn ensure(python: &Path) -> Result<PathBuf> {
    Ok(pip::ensure(python, "py-spy", VERSION)?.join("bin/py-spy"))
}
