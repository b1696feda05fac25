//! Prometheus, from a package of Debian's that is unpacked, since one that is installed would run.

use std::path::PathBuf;

use anyhow::Result;

use super::{RELEASE, SHELF};
use crate::apt::{self, Apt};
use crate::once::Site;

/// Its packages, which are called like the programs in them.
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Asks for metrics and answers questions about them.
    pub server: PathBuf,
    /// Says what is wrong with metrics.
    pub tool: PathBuf,
}

pub(super) fn ensure() -> Result<Prometheus> {
    let programs = SHELF.ensure("prometheus", unpack)?.join("usr/bin");
    let [server, tool] = PROGRAMS.map(|name| programs.join(name));
    Ok(Prometheus { server, tool })
}

fn unpack(site: &Site) -> Result<()> {
    let packages = site.scratch.join("packages");
    Apt::updated(site, RELEASE)?.download(site, &PROGRAMS, &packages)?;
    let mut packages = apt::downloaded(&packages)?;
    packages.retain(|package| PROGRAMS.contains(&apt::name_of(package)));
    apt::unpack(site, &packages, &site.unfinished)
}
