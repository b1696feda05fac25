//! A Debian host with systemd and Python, on which packages are installed.
//!
//! Invariant: it is made once per machine, in the cache.

use std::path::PathBuf;

use anyhow::Result;

use super::kernel::cache_directory;
use crate::cache;
use crate::debian::{MIRROR, Release, TRIXIE};
use crate::packages;
use crate::paths;
use crate::process::as_root;

/// The release of the host, whose C library must not be older than the one that the agent is built
/// with.
const RELEASE: Release = TRIXIE;

/// The image of its root file system, made if it is not in the cache.
pub(super) fn image() -> Result<PathBuf> {
    let directory = cache::ensure(&cache_directory()?, &format!("host-{RELEASE}"), |site| {
        packages::install(&["cpio", "debian-archive-keyring", "debootstrap"])?;
        site.run(
            as_root(paths::workspace().join("xtask/vm/make-host"), false)?
                .arg(site.unfinished.join(IMAGE))
                .args([&RELEASE.to_string(), MIRROR]),
        )
    })?;
    Ok(directory.join(IMAGE))
}

/// The image in its directory.
const IMAGE: &str = "image";
