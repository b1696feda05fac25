//! Makes the Debian package, as `agent/Cargo.toml` describes it.

use std::path::PathBuf;

use anyhow::Result;

use super::{documents, source_date_epoch};
use crate::cargo_tools::CARGO_DEB;
use crate::paths;
use crate::process::capture;

/// Makes the package of an agent that is already built, at [`paths::agent_binary`], and returns its
/// path; `version` replaces the version of the crate.
///
/// # Errors
///
/// When it cannot be made.
pub fn make(version: Option<&str>) -> Result<PathBuf> {
    documents::make()?;
    let mut command = CARGO_DEB.command()?;
    command.args(["--package", "agent", "--no-build", "--strip", "--quiet"]);
    if let Some(version) = version {
        command.args(["--deb-version", version]);
    }
    if let Some(epoch) = source_date_epoch() {
        command.env("SOURCE_DATE_EPOCH", epoch);
    }
    // It prints the path of the package.
    Ok(paths::workspace().join(capture(&mut command)?))
}
