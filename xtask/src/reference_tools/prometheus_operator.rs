//! The definitions of the types of the Prometheus Operator, out of its Go module.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::SHELF;
use crate::cache::Site;
use crate::tools::UNZIP;

/// Its module and version, and the SHA-256 of its archive in the module proxy.
const MODULE: &str = "github.com/prometheus-operator/prometheus-operator";
const VERSION: &str = "0.85.0";
const SHA256: &str = "0bdb88ed823d0f2e86cf909638439b6ad1da744a228172c7411d9987527dc5d1";

/// The directory of the definitions.
const DEFINITIONS: &str = "example/prometheus-operator-crd";

/// The directory with the definitions, a file for each type.
pub(super) fn ensure() -> Result<PathBuf> {
    SHELF.ensure(&format!("prometheus-operator-{VERSION}"), fetch)
}

fn fetch(site: &Site) -> Result<()> {
    let address = format!("https://proxy.golang.org/{MODULE}/@v/v{VERSION}.zip");
    let archive = site.scratch.join("module.zip");
    site.download(&address, SHA256, &archive)?;
    site.run(
        Command::new(UNZIP.ensure()?)
            .args(["-q", "-j"])
            .arg(&archive)
            .arg(format!("{MODULE}@v{VERSION}/{DEFINITIONS}/*"))
            .arg("-d")
            .arg(&site.unfinished),
    )
}
