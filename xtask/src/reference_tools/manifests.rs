//! Kustomize and Helm, which render manifests of Kubernetes, out of the Go module proxy.
//!
//! Building them takes about three minutes of CPU time. Invariant: the versions and hashes of all
//! modules are those of `go.mod` and `go.sum` in `xtask/reference_tools/kubernetes`.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::{Site, hash};
use crate::paths;
use crate::tools::go;

/// Their module, below the workspace.
const MODULE: &str = "xtask/reference_tools/kubernetes";

/// Its files.
const FILES: [&str; 2] = [
    include_str!("../../reference_tools/kubernetes/go.mod"),
    include_str!("../../reference_tools/kubernetes/go.sum"),
];

/// Their packages.
const PACKAGES: [&str; 2] = [
    "helm.sh/helm/v4/cmd/helm",
    "sigs.k8s.io/kustomize/kustomize/v5",
];

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renderers {
    /// Renders charts.
    pub helm: PathBuf,
    /// Renders kustomizations.
    pub kustomize: PathBuf,
}

pub(super) fn ensure() -> Result<Renderers> {
    let name = format!("kubernetes-tools-{}", hash(FILES));
    let directory = SHELF.ensure(&name, build)?;
    Ok(Renderers {
        helm: directory.join("helm"),
        kustomize: directory.join("kustomize"),
    })
}

fn build(site: &Site) -> Result<()> {
    let module = paths::workspace().join(MODULE);
    site.run(
        go::newest()?
            .in_module(&module, &site.scratch)
            .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
            .arg(&site.unfinished)
            .args(PACKAGES)
            .env("CGO_ENABLED", "0"),
    )
}
