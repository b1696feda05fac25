//! Where things are kept.
//!
//! Invariant: what is made once per machine lives in the cache directory, never in a checkout.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The root of this checkout.
#[must_use]
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// What is made once per machine: `$XDG_CACHE_HOME/agent-build` or `~/.cache/agent-build`.
///
/// # Errors
///
/// When neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache() -> Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .context("set HOME or XDG_CACHE_HOME to an absolute path")?;
    Ok(base.join("agent-build"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_the_directory_with_the_lock_file() {
        assert!(workspace().join("Cargo.lock").exists());
    }
}
