//! Packages of Debian's releases, downloaded and unpacked, never installed: nothing of the machine
//! changes, no service starts, and it does not matter which release the machine runs.
//!
//! Whatever needs a package of a release calls this module; [`crate::packages`] is for packages
//! that are installed on the machine.
//!
//! Invariants: everything is verified with the keys of Debian's archive. Sid changes four times a
//! day, so its packages are those of one [`Snapshot`]: from a mirror that happens to have the same
//! state, else from snapshot.debian.org. Where that cannot be reached, the packages of the mirror
//! are used and a warning gives both dates. The other releases only get fixes.

mod apt;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::architecture::Architecture;
use crate::cache::{Shelf, Site};
use crate::process::is_executable;

pub(crate) use apt::{ARCHIVE, Apt, MIRROR};

/// The unpacked programs in the cache.
const SHELF: Shelf = Shelf("programs");

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    suite: &'static str,
    snapshot: Option<Snapshot>,
    /// What Debian calls the architecture of its packages; [`None`] for this machine's.
    architecture: Option<&'static str>,
}

/// The state of the archive at one time, which snapshot.debian.org keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Snapshot {
    /// What snapshot.debian.org calls it.
    timestamp: &'static str,
    /// The `Date` of its `Release` file, by which a mirror of the same state is recognized.
    date: &'static str,
}

/// Debian 11.
pub const BULLSEYE: Release = Release::stable("bullseye");
/// Debian 12.
pub const BOOKWORM: Release = Release::stable("bookworm");
/// Debian 13.
pub const TRIXIE: Release = Release::stable("trixie");
/// The unstable release. To test with newer packages, take both values from a newer snapshot: the
/// cache keeps the packages of each snapshot apart.
pub const SID: Release = Release {
    suite: "sid",
    snapshot: Some(Snapshot {
        timestamp: "20261030T120000Z",
        date: "Fri, 30 Oct 2026 08:08:01 UTC",
    }),
    architecture: None,
};

impl Release {
    const fn stable(suite: &'static str) -> Self {
        Self {
            suite,
            snapshot: None,
            architecture: None,
        }
    }

    /// The same release for machines of an architecture.
    pub(crate) fn of(self, architecture: Architecture) -> Self {
        let other = (!architecture.is_host()).then_some(architecture.debian);
        Self {
            architecture: other,
            ..self
        }
    }

    /// The name in the cache of something that is made from packages of this release: `name`, the
    /// architecture if it is not this machine's, and the snapshot if there is one.
    pub(crate) fn cache_name(self, name: &str) -> String {
        let mut name = name.to_owned();
        if let Some(architecture) = self.architecture {
            name.push('-');
            name.push_str(architecture);
        }
        if let Some(Snapshot { timestamp, .. }) = self.snapshot {
            name.push('@');
            name.push_str(timestamp);
        }
        name
    }

    /// The name of the directory with its lists of packages.
    fn state_name(self) -> String {
        match self.architecture {
            Some(architecture) => format!("{}-{architecture}", self.suite),
            None => self.suite.to_owned(),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.suite)
    }
}

/// The path of `program` of a release's package, which is downloaded if it is not in the cache. It
/// has to need nothing but the C library, and that not newer than this machine's.
///
/// # Errors
///
/// When the package cannot be downloaded, or does not have the program.
pub fn program(release: Release, package: &str, program: &str) -> Result<PathBuf> {
    let name = release.cache_name(&format!("{package}-{release}"));
    let directory = SHELF.ensure(&name, |site| {
        let packages = Apt::update(site, release)?.download(site, &[package])?;
        unpack(site, &packages, &site.unfinished)
    })?;
    let path = directory.join("usr/bin").join(program);
    ensure!(
        is_executable(&path),
        "the package {package} of Debian {release} has no program {program}"
    );
    Ok(path)
}

/// A downloaded binary package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    file: PathBuf,
}

impl Package {
    /// The package in a file.
    pub(crate) fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    /// The name without version and architecture.
    pub(crate) fn name(&self) -> &str {
        let name = self.file.file_name().and_then(|name| name.to_str());
        let (name, _) = name
            .and_then(|name| name.split_once('_'))
            .unwrap_or_default();
        name
    }
}

/// Extracts the files of packages below `root`, in this order.
pub(crate) fn unpack(site: &Site, packages: &[Package], root: &Path) -> Result<()> {
    packages.iter().try_for_each(|package| {
        site.run(
            Command::new("dpkg-deb")
                .arg("-x")
                .args([package.file.as_path(), root]),
        )
    })
}

/// The packages in a directory, by name.
fn packages_in(directory: &Path) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(directory)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            packages.push(Package::at(file));
        }
    }
    packages.sort();
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_snapshot_pins_is_kept_apart_in_the_cache() {
        assert_eq!(TRIXIE.cache_name("3.13-trixie"), "3.13-trixie");
        let name = SID.cache_name("3.15-sid");
        let (name, timestamp) = name.split_once('@').unwrap();
        assert_eq!(name, "3.15-sid");
        assert_eq!(timestamp.len(), "20261030T120000Z".len());
        let other = Architecture::other();
        let name = SID.of(other).cache_name("newest");
        assert_eq!(name, format!("newest-{}@{timestamp}", other.debian));
        assert_eq!(SID.of(Architecture::host()), SID);
    }

    #[test]
    fn packages_are_listed_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["zlib1g_1.3_amd64.deb", "adduser_3_all.deb", "lock"] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let packages = packages_in(directory.path()).unwrap();
        let names: Vec<_> = packages.iter().map(Package::name).collect();
        assert_eq!(names, ["adduser", "zlib1g"]);
    }
}
