//! Programs of Debian's packages, unpacked and not installed: nothing of the machine changes, no
//! service starts, and it does not matter what else it has.
//!
//! Invariant: they are linked with nothing but the C library, so that they run on every machine
//! that is not older.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::apt::Apt;
use crate::once;
use crate::process::is_executable;

/// Where they are kept in the cache.
pub(crate) const COLLECTION: &str = "programs";

/// The path of `program` of a package of the release `suite`, which is fetched if it is not there.
///
/// # Errors
///
/// When it cannot be fetched, or the package does not have it.
pub fn program(suite: &str, package: &str, program: &str) -> Result<PathBuf> {
    let directory = once::ensure(COLLECTION, &format!("{package}-{suite}"), |site| {
        Apt::updated(site, suite)?.download_alone(site, package)?;
        let file = fs::read_dir(&site.scratch)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|file| file.extension().is_some_and(|extension| extension == "deb"))
            .context("there is no package")?;
        site.run(
            Command::new("dpkg-deb")
                .arg("-x")
                .args([&file, &site.unfinished]),
        )
    })?;
    let path = directory.join("usr/bin").join(program);
    ensure!(is_executable(&path), "{package} has no {program}");
    Ok(path)
}
