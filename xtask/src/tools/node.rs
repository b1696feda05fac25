//! Node.js, from the registry of npm, which has a package with its program.
//!
//! Invariant: one version for everybody, since what profiles it reads the code that it makes.

use std::env::consts::ARCH;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cache::{Shelf, Site};

const VERSION: &str = "22.23.3";

/// For each architecture what Node.js calls it, and the SHA-256 of its package.
const PACKAGES: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "x64",
        "00b5c43d88958dbbf45339c4d5e9a76289c7e25876fd08270b379e485e151fc5",
    ),
    (
        "aarch64",
        "arm64",
        "894b9938b215d40b3a38db094ef436d02b3bc7dd16f04fca145a4735cd9e9035",
    ),
];

/// The program, fetched if it is not there.
///
/// # Errors
///
/// When it cannot be fetched.
pub fn node() -> Result<PathBuf> {
    let directory = Shelf("node").ensure(VERSION, fetch);
    let directory = directory.with_context(|| format!("the tests need Node.js {VERSION}"))?;
    Ok(directory.join("bin/node"))
}

fn fetch(site: &Site) -> Result<()> {
    let (_, architecture, sha256) = PACKAGES
        .into_iter()
        .find(|(rust, ..)| *rust == ARCH)
        .with_context(|| format!("no archive of it is pinned for {ARCH}"))?;
    let name = format!("node-linux-{architecture}");
    let address = format!("https://registry.npmjs.org/{name}/-/{name}-{VERSION}.tgz");
    let archive = site.scratch.join("node.tgz");
    site.download(&address, sha256, &archive)?;
    site.extract(&archive, &site.unfinished)
}
