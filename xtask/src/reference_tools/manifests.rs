//! Kustomize, from a package of Debian, and Helm, out of the Go module proxy, which render manifests of
//! Kubernetes.
//!
//! Building Helm takes about two minutes of CPU time. Invariant: the versions and hashes of all its
//! modules are those of `go.mod` and `go.sum` in `xtask/reference_tools/kubernetes`.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::{Site, hash};
use crate::debian::{self, SID};
use crate::paths;
use crate::tools::go;

/// Helm's module, below the workspace.
const MODULE: &str = "xtask/reference_tools/kubernetes";

/// Its files.
const FILES: [&str; 2] = [
    include_str!("../../reference_tools/kubernetes/go.mod"),
    include_str!("../../reference_tools/kubernetes/go.sum"),
];

/// Its package.
const PACKAGE: &str = "helm.sh/helm/v4/cmd/helm";

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renderers {
    /// Renders charts.
    pub helm: PathBuf,
    /// Renders kustomizations.
    pub kustomize: PathBuf,
}

pub(super) fn ensure() -> Result<Renderers> {
    let name = format!("helm-{}", hash(FILES));
    let directory = SHELF.ensure(&name, build)?;
    Ok(Renderers {
        helm: directory.join("helm"),
        kustomize: debian::program(SID, "kustomize", "kustomize")?,
    })
}

fn build(site: &Site) -> Result<()> {
    let module = paths::workspace().join(MODULE);
    site.run(
        go::newest()?
            .in_module(&module, &site.scratch)
            // It renders a few files: not optimized it is built faster.
            .args(["build", "-gcflags=all=-N -l", "-ldflags=-s -w", "-o"])
            .arg(&site.unfinished)
            .arg(PACKAGE)
            .env("CGO_ENABLED", "0"),
    )
}
