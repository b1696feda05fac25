//! speedscope, from the npm registry.
//!
//! Invariant: the version is pinned, because the test that runs its importers uses its internals.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::SHELF;
use crate::cache::Site;

const VERSION: &str = "1.25.0";
const SHA256: &str = "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03";

pub(super) fn ensure() -> Result<PathBuf> {
    let directory = SHELF.ensure(&format!("speedscope-{VERSION}"), fetch)?;
    let release = directory.join("dist/release");
    let files = fs::read_dir(&release)
        .with_context(|| format!("remove {} and try again", directory.display()))?;
    let mut files = files.flatten().map(|entry| entry.path());
    files
        .find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            // With a hash in between.
            name.starts_with("speedscope-") && name.ends_with(".js")
        })
        .with_context(|| format!("it is not in {}", release.display()))
}

fn fetch(site: &Site) -> Result<()> {
    let address = format!("https://registry.npmjs.org/speedscope/-/speedscope-{VERSION}.tgz");
    let archive = site.scratch.join("speedscope.tgz");
    site.download(&address, SHA256, &archive)?;
    site.extract(&archive, &site.unfinished)
}
