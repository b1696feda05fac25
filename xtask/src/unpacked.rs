//! Programs of Debian's packages, unpacked and not installed: nothing of the machine changes, no
//! service starts, and it does not matter what else it has.
//!
//! Invariant: they are linked with nothing but the C library, so that they run on every machine
//! that is not older.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::apt::{self, Apt};
use crate::once::Shelf;
use crate::process::is_executable;

/// Where they are kept in the cache.
pub(crate) const SHELF: Shelf = Shelf("programs");

/// The path of `program` of a package of the release `suite`, which is fetched if it is not there.
///
/// # Errors
///
/// When it cannot be fetched, or the package does not have it.
pub fn program(suite: &str, package: &str, program: &str) -> Result<PathBuf> {
    let directory = SHELF.ensure(&format!("{package}-{suite}"), |site| {
        Apt::updated(site, suite)?.download_alone(site, package)?;
        apt::unpack(site, &apt::downloaded(&site.scratch)?, &site.unfinished)
    })?;
    let path = directory.join("usr/bin").join(program);
    ensure!(is_executable(&path), "{package} has no {program}");
    Ok(path)
}
