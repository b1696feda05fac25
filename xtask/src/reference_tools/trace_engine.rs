//! The trace engine of Chromium's developer tools, from the npm registry.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::Site;

const VERSION: &str = "0.0.65";
const SHA256: &str = "bd819996886a9887ff9d8944f6b304b0909a0db997089a32cc31e2e49a8019fe";

pub(super) fn ensure() -> Result<PathBuf> {
    SHELF.ensure(&format!("trace-engine-{VERSION}"), fetch)
}

fn fetch(site: &Site) -> Result<()> {
    let address =
        format!("https://registry.npmjs.org/@paulirish/trace_engine/-/trace_engine-{VERSION}.tgz");
    let archive = site.scratch.join("trace_engine.tgz");
    site.download(&address, SHA256, &archive)?;
    site.extract(&archive, &site.unfinished)
}
