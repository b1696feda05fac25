//! Kustomize, from a package of Debian, and Helm, which render manifests of Kubernetes.
//!
//! Helm is the library that helm-java has on Maven Central, with a program of a few lines around it:
//! building Helm itself takes five minutes of CPU time. Invariant: its version and hash are pinned.

use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use super::SHELF;
use crate::cache::{Site, hash};
use crate::debian::{self, SID};
use crate::tools::{GCC, UNZIP};

/// The version of helm-java, which is built for one architecture, and the SHA-256 of its archive; its
/// Helm is 3.21.
const VERSION: &str = "0.0.21";
const SHA256: &str = "a01b3a7a746e67ac9541d147dabcea0b295ea1cbb0c456a3f2f5b911ce75bf7a";
const ARCHITECTURE: &str = "x86_64";

/// The library and its header in the archive.
const LIBRARY: &str = "helm-linux-amd64.so";
const HEADER: &str = "helm-linux-amd64.h";

/// The program around it.
const MAIN: &str = include_str!("../../reference_tools/helm.c");

/// The programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renderers {
    /// Renders charts: `helm lint CHART` and `helm template NAME CHART NAMESPACE VALUES`.
    pub helm: PathBuf,
    /// Renders kustomizations.
    pub kustomize: PathBuf,
}

pub(super) fn ensure() -> Result<Renderers> {
    let name = format!("helm-{}", hash([VERSION, MAIN]));
    let directory = SHELF.ensure(&name, build)?;
    Ok(Renderers {
        helm: directory.join("helm"),
        kustomize: debian::program(SID, "kustomize", "kustomize")?,
    })
}

fn build(site: &Site) -> Result<()> {
    ensure!(ARCH == ARCHITECTURE, "no Helm is pinned for {ARCH}");
    let address = format!(
        "https://repo1.maven.org/maven2/com/marcnuri/helm-java/linux-amd64/{VERSION}/linux-amd64-{VERSION}.jar"
    );
    let archive = site.scratch.join("helm.jar");
    site.download(&address, SHA256, &archive)?;
    site.run(
        Command::new(UNZIP.ensure()?)
            .arg("-q")
            .arg(&archive)
            .args([LIBRARY, HEADER])
            .arg("-d")
            .arg(&site.scratch),
    )?;
    fs::rename(site.scratch.join(HEADER), site.scratch.join("helm.h"))?;
    fs::rename(site.scratch.join(LIBRARY), site.unfinished.join(LIBRARY))?;
    let main = site.scratch.join("helm.c");
    fs::write(&main, MAIN)?;
    site.run(
        Command::new(GCC.ensure()?)
            .arg(main)
            .arg("-o")
            .arg(site.unfinished.join("helm"))
            .arg("-L")
            .arg(&site.unfinished)
            .arg(format!("-l:{LIBRARY}"))
            .arg("-Wl,-rpath,$ORIGIN"),
    )
}
