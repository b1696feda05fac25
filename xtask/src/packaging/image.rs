//! Makes the container image, as `deploy/Containerfile` describes it.
//!
//! Invariant: nothing is fetched: all that is in it is on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::libraries;
use crate::packages;
use crate::paths;
use crate::process::{capture, run};

/// What the image is called.
const NAME: &str = concat!("agent:", env!("CARGO_PKG_VERSION"));

/// Where the certificates are that are trusted, on Debian and its kin.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Makes the image of an agent that is built already, and returns what it is called; `storage` is
/// where images are kept instead of the usual place.
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
    // Left from another build, or not there.
    drop(fs::remove_dir_all(&root));
    fill(&root, agent)?;
    run(buildah
        .args(["build", "--quiet", "--tag", NAME, "--file"])
        .arg(paths::workspace().join("deploy/Containerfile"))
        .arg(&root))?;
    Ok(NAME)
}

/// Lets buildah or Podman keep their images and containers in a directory.
pub fn in_storage(command: &mut Command, directory: &Path) {
    command.arg("--root").arg(directory.join("images"));
    command.arg("--runroot").arg(directory.join("running"));
}

/// Puts everything in its place.
fn fill(root: &Path, agent: &Path) -> Result<()> {
    let program = root.join("usr/bin/agent");
    copy(agent, &program)?;
    // Lines of the agent's own code are two thirds of it.
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

/// Where a file of this machine is in the image.
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
