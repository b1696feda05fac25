//! Makes what a release consists of: the package, the same files as an archive for other
//! distributions, lists of what they are built from, and their checksums.
//!
//! Invariants: the archive has the files of the package, so that there is one list of them; the same
//! agent gives the same files. Nothing is signed here: keys are those of who publishes.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::source_date_epoch;
use crate::cargo_tools::CARGO_CYCLONEDX;
use crate::paths;
use crate::process::{capture, cargo, run};

/// The version of all crates of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The crates that are in the agent's binary: it embeds the BPF programs, which are built for their
/// own target.
const COMPONENTS: [&str; 2] = ["agent", "agent-ebpf"];

/// Licenses, in the root of the project.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The checksums of all other files.
const CHECKSUMS: &str = "SHA256SUMS";

/// Makes the files of a release out of the package, and returns their directory.
///
/// # Errors
///
/// When one cannot be made.
pub fn make(package: &Path) -> Result<PathBuf> {
    let epoch = source_date_epoch()
        .context("set SOURCE_DATE_EPOCH to the time of the release: this is no checkout of git")?;
    let directory = paths::target().join("release-artifacts");
    // A remainder of another release, or missing.
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let name = package.file_name().context("a package has a name")?;
    fs::copy(package, directory.join(name))?;
    archive(package, &directory, &epoch)?;
    lists(&directory, &epoch)?;
    checksums(&directory)?;
    Ok(directory)
}

/// What the names of files begin with.
fn name(of: &str) -> String {
    format!("{of}-{VERSION}-{ARCH}-linux")
}

/// Makes the archive: a directory with the tree of the package and the licenses.
fn archive(package: &Path, directory: &Path, epoch: &str) -> Result<()> {
    let scratch = directory.join("scratch");
    fs::create_dir(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let name = name("agent");
    let root = scratch.join(&name);
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(package)
        .arg(&root))?;
    // It concerns the package.
    fs::remove_dir_all(root.join("usr/share/lintian"))?;
    for license in LICENSES {
        fs::copy(paths::workspace().join(license), root.join(license))?;
    }
    run(Command::new("tar")
        .args(["--create", "--use-compress-program=gzip -n9"])
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{epoch}"))
        .arg("--file")
        .arg(directory.join(format!("{name}.tar.gz")))
        .arg("--directory")
        .arg(&scratch)
        .arg(&name))?;
    fs::remove_dir_all(&scratch)?;
    Ok(())
}

/// Lists the crates that the agent is built from, in the format of `CycloneDX`.
fn lists(directory: &Path, epoch: &str) -> Result<()> {
    let mut cyclonedx = CARGO_CYCLONEDX.command()?;
    run(cyclonedx
        .args(["cyclonedx", "--quiet", "--format", "json"])
        .args(["--spec-version", "1.5"])
        .env("SOURCE_DATE_EPOCH", epoch))?;
    // It writes one beside the manifest of each crate.
    for (crate_name, path) in members()? {
        let list = path.join(format!("{crate_name}.cdx.json"));
        if COMPONENTS.contains(&&*crate_name) {
            let text =
                fs::read_to_string(&list).with_context(|| format!("no {}", list.display()))?;
            // Where this checkout is concerns nobody.
            let text = text.replace(&*paths::workspace().to_string_lossy(), "");
            let kept = format!("{}.cdx.json", name(&crate_name));
            fs::write(directory.join(kept), text)?;
        }
        // Not all have one.
        drop(fs::remove_file(list));
    }
    Ok(())
}

/// The crates of the workspace and where they are.
fn members() -> Result<Vec<(String, PathBuf)>> {
    let list = capture(cargo().args(["tree", "--workspace", "--depth", "0", "--prefix", "none"]))?;
    Ok(list.lines().filter_map(member).collect())
}

/// The name and the path in a line of `cargo tree`: `agent v0.1.0 (/src/agent)`.
fn member(line: &str) -> Option<(String, PathBuf)> {
    let (name, rest) = line.split_once(' ')?;
    let (_, path) = rest.rsplit_once('(')?;
    Some((name.to_owned(), path.strip_suffix(')')?.into()))
}

/// Writes the checksums of all files, as `sha256sum --check` reads them.
fn checksums(directory: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let mut sums = capture(Command::new("sha256sum").current_dir(directory).args(names))?;
    sums.push('\n');
    fs::write(directory.join(CHECKSUMS), sums)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_of_the_workspace_are_found() {
        let members = members().unwrap();
        for name in COMPONENTS {
            let (_, path) = members.iter().find(|(it, _)| it == name).unwrap();
            assert!(path.join("Cargo.toml").exists(), "{}", path.display());
        }
    }

    #[test]
    fn the_checksums_are_those_of_the_files() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.tar.gz", "a.deb"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        checksums(directory.path()).unwrap();
        let mut check = Command::new("sha256sum");
        check.current_dir(directory.path());
        let answer = capture(check.args(["--check", "--strict", CHECKSUMS])).unwrap();
        assert_eq!(answer, "a.deb: OK\nb.tar.gz: OK");
    }

    #[test]
    fn the_archive_has_the_files_of_the_package_and_is_reproducible() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        for (path, text) in [
            (
                "DEBIAN/control",
                "Package: agent\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n",
            ),
            ("usr/bin/agent", "program"),
            ("usr/share/lintian/overrides/agent", "overrides"),
        ] {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let package = directory.path().join("agent.deb");
        capture(
            Command::new("dpkg-deb")
                .arg("--build")
                .arg(&tree)
                .arg(&package),
        )
        .unwrap();
        let made = ["first", "second"].map(|folder| {
            let folder = directory.path().join(folder);
            fs::create_dir(&folder).unwrap();
            archive(&package, &folder, "1700000000").unwrap();
            folder.join(format!("{}.tar.gz", name("agent")))
        });
        assert_eq!(fs::read(&made[0]).unwrap(), fs::read(&made[1]).unwrap());
        let list = capture(
            Command::new("tar")
                .arg("--list")
                .arg("--file")
                .arg(&made[0]),
        )
        .unwrap();
        let files: Vec<_> = list
            .lines()
            .filter(|line| !line.ends_with('/'))
            .map(|line| line.split_once('/').unwrap().1)
            .collect();
        assert_eq!(files, ["LICENSE-APACHE", "LICENSE-MIT", "usr/bin/agent"]);
    }
}
