//! Makes the container image, as `deploy/Containerfile` describes it.
//!
//! Invariant: no base image is pulled: all files of the image are from this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::libraries;
use crate::packages;
use crate::paths;
use crate::process::{capture, run};

/// The name of the image.
const NAME: &str = concat!("agent:", env!("CARGO_PKG_VERSION"));

/// The trusted certificates, on Debian and its derivatives.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Makes the image of an agent that is already built, and returns its name; `storage` replaces the
/// usual directory of images.
///
/// # Errors
///
/// When it cannot be made.
pub fn make(agent: &Path, storage: Option<&Path>) -> Result<&'static str> {
    packages::install(&["binutils", "buildah", "ca-certificates"])?;
    let root = paths::target().join("image");
    let mut buildah = Command::new("buildah");
    if let Some(storage) = storage {
        in_storage(&mut buildah, storage);
    }
    // A remainder of another build, or missing.
    drop(fs::remove_dir_all(&root));
    fill(&root, agent)?;
    run(buildah
        .args(["build", "--quiet", "--tag", NAME, "--file"])
        .arg(paths::workspace().join("deploy/Containerfile"))
        .arg(&root))?;
    Ok(NAME)
}

/// Makes buildah or Podman keep images and containers in a directory.
pub fn in_storage(command: &mut Command, directory: &Path) {
    command.arg("--root").arg(directory.join("images"));
    command.arg("--runroot").arg(directory.join("running"));
}

/// Copies the files of the image below `root`.
fn fill(root: &Path, agent: &Path) -> Result<()> {
    let program = root.join("usr/bin/agent");
    copy(agent, &program)?;
    // Line tables are two thirds of it.
    capture(Command::new("strip").arg("--strip-debug").arg(&program))?;
    for library in libraries::of(agent) {
        copy(&library, &inside(root, &library))?;
    }
    let certificates = Path::new(CERTIFICATES);
    copy(certificates, &inside(root, certificates))?;
    let example = paths::workspace().join("deploy/agent.yaml");
    copy(&example, &root.join("etc/agent/agent.yaml"))?;
    // A root file system that is read only has to have it already.
    fs::create_dir_all(root.join("var/lib/agent")).context("cannot make a directory")
}

/// The path in the image of a file of this machine.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn copy(source: &Path, destination: &Path) -> Result<()> {
    if let Some(directory) = destination.parent() {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    fs::copy(source, destination).with_context(|| format!("cannot copy {}", source.display()))?;
    Ok(())
}
