//! A host of Debian's with systemd and Python, in which packages are installed.
//!
//! Invariant: it is made once per machine, in the cache, and only ever seen whole.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::kernel;
use crate::packages;
use crate::paths;
use crate::process::{as_root, run};

/// The release of Debian: one whose C library is not older than those that agents are built with.
const SUITE: &str = "trixie";

/// The image of its root file system, made if it is not there.
pub(super) fn image() -> Result<PathBuf> {
    let directory = kernel::cache()?.join("hosts");
    let image = directory.join(SUITE);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let lock = File::create(directory.join("lock"))?;
    lock.lock()?;
    if !image.exists() {
        println!("making a host of Debian {SUITE}, once on this machine");
        packages::install(&["cpio", "debian-archive-keyring", "debootstrap"])?;
        run(
            as_root(paths::workspace().join("xtask/vm/make-host"), false)?
                .arg(&image)
                .arg(SUITE),
        )?;
    }
    Ok(image)
}
