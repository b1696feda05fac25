//! memray, from the Python Package Index, for comparison.

use std::path::{Path, PathBuf};

use anyhow::Result;
use xtask::pip;

/// The version that is compared.
pub(super) const VERSION: &str = "1.20.0";

/// Finds or installs it for this interpreter, and returns the interpreter of its environment, which is
/// the same program with memray to import.
pub(super) fn ensure(python: &Path) -> Result<PathBuf> {
    Ok(pip::ensure_for(python, "memray", VERSION)?.join("bin/python"))
}
