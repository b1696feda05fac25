//! Prometheus, from a package of Debian's that is unpacked, since one that is installed would run.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::Site;
use crate::debian::{self, Apt, SID};

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
    let programs = SHELF
        .ensure(&SID.cache_name("prometheus"), unpack)?
        .join("usr/bin");
    let [server, tool] = PROGRAMS.map(|name| programs.join(name));
    Ok(Prometheus { server, tool })
}

fn unpack(site: &Site) -> Result<()> {
    let packages = Apt::update(site, SID)?.download(site, &PROGRAMS)?;
    debian::unpack(site, &packages, &site.unfinished)
}
