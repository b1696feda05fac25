//! Root file systems of Debian releases, for interpreters that this machine does not have.
//!
//! Invariants: packages are unpacked, none is configured, so that a root takes seconds; it has a
//! shell, and what a container mounts there and on. Its programs need its own C library, so they
//! run with it as their root directory, as in a container; the caller's working directory, `/tmp`
//! and the kernel's file systems are shared.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::SHELF;
use crate::cache::Site;
use crate::debian::{self, Apt, Package, Release};

/// The packages of every root; the first must be unpacked before the others, since it makes the links
/// from `/bin` and `/lib` to where they put their files.
const BASE: [&str; 4] = ["base-files", "dash", "coreutils", "mount"];

/// Where a container has mounts.
const MOUNT_POINTS: [&str; 4] = ["proc", "sys", "dev", "tmp"];

/// The root file system that the program at `path` runs in, unless that is this machine's.
#[must_use]
pub fn of(path: &Path) -> Option<PathBuf> {
    SHELF.name_of(path)?;
    Some(path.with_file_name("root")).filter(|root| root.is_dir())
}

/// Whether the program at `path` runs in another file system than this machine's.
#[must_use]
pub fn contains(path: &Path) -> bool {
    of(path).is_some()
}

/// A command that runs another program of the root file system in which the program at `path` runs,
/// as that does; nothing if that is this machine's.
#[must_use]
pub fn command(path: &Path, program: &str) -> Option<Command> {
    let mut command = Command::new("sh");
    command.args(["-c", &script(&of(path)?, program), "sh"]);
    Some(command)
}

/// The path of a program on this machine that runs `program` of a Debian release in that release's
/// root file system. It replaces itself, so it keeps its process ID. `program` is also the name of
/// its package.
pub(super) fn ensure(name: &str, release: Release, program: &str) -> Result<PathBuf> {
    let directory = SHELF.ensure(&release.cache_name(name), |site| {
        unpack(site, release, program)?;
        let wrapper = site.unfinished.join(program);
        let root = site.finished.join("root");
        fs::write(&wrapper, script(&root, program))
            .and_then(|()| fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", wrapper.display()))
    })?;
    Ok(directory.join(program))
}

fn unpack(site: &Site, release: Release, program: &str) -> Result<()> {
    let wanted: Vec<_> = BASE.into_iter().chain([program]).collect();
    let packages = Apt::update(site, release)?.download_closure(site, &wanted)?;
    let root = site.unfinished.join("root");
    debian::unpack(site, &in_order(packages), &root)?;
    for directory in MOUNT_POINTS {
        fs::create_dir_all(root.join(directory))?;
    }
    let shell = root.join("bin/sh");
    // In old releases only the configuration of the package makes it.
    if !shell.exists() {
        symlink("dash", shell)?;
    }
    Ok(())
}

/// The same packages, the first of [`BASE`] first.
fn in_order(mut packages: Vec<Package>) -> Vec<Package> {
    packages.sort_by_key(|package| package.name() != BASE[0]);
    packages
}

fn script(root: &Path, program: &str) -> String {
    format!(
        r#"#!/bin/sh
# Runs {program} with {root} as its root directory.
ROOT='{root}' exec unshare --mount --propagation private sh -c '
set -e
for directory in /proc /sys /dev /tmp "$PWD"; do
    mkdir -p "$ROOT$directory"
    mount --rbind "$directory" "$ROOT$directory"
done
exec chroot "$ROOT" /usr/bin/env -u ROOT -C "$PWD" {program} "$@"' sh "$@"
"#,
        root = root.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapper_names_the_root_and_is_a_shell_script() {
        let script = script(Path::new("/cache/3.13-trixie/root"), "python3.13");
        assert!(script.starts_with("#!/bin/sh\n"));
        let parses = Command::new("sh").args(["-n", "-c", &script]).status();
        assert!(parses.unwrap().success());
        assert!(script.contains("ROOT='/cache/3.13-trixie/root'"));
    }

    #[test]
    fn the_package_with_the_links_is_unpacked_first() {
        let packages = ["b/adduser_3.deb", "b/base-files_12.deb", "b/dash_1.deb"].map(Package::at);
        let packages = in_order(packages.into());
        let names: Vec<_> = packages.iter().map(Package::name).collect();
        assert_eq!(names, ["base-files", "adduser", "dash"]);
    }
}
