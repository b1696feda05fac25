//! Prometheus, from unpacked packages of Debian: an installed one would start a service.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::Site;
use crate::debian::{self, Apt, SID};

/// Its packages, each of which has a program of the same name.
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Scrapes metrics and evaluates queries.
    pub server: PathBuf,
    /// Validates metrics and rules.
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
