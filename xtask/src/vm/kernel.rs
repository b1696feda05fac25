//! The kernels to test on, and how to get them.
//!
//! Invariant: a kernel is downloaded once per machine, into the cache. The newest is the newest of
//! the snapshot of sid; of the other releases the one with the latest fixes that could be downloaded at
//! that time.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, anyhow, bail};

use crate::architecture::Architecture;
use crate::cache::{self, Site};
use crate::debian::{self, Apt, BOOKWORM, BULLSEYE, Release, SID, TRIXIE};
use crate::paths;
use crate::process::capture;

/// Packages that are tried, newest first.
const MAX_TRIED: usize = 10;

/// The files in the cache: the image, and the name of the package that it is from.
const IMAGE: &str = "vmlinuz";
const PACKAGE: &str = "package";

/// A kernel of Debian in its flavour for virtual machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// 5.10, the oldest that the agent supports.
    Linux5_10,
    /// 6.1.
    Linux6_1,
    /// 6.12.
    Linux6_12,
    /// The newest that Debian has.
    Newest,
}

impl Kernel {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [
        Self::Linux5_10,
        Self::Linux6_1,
        Self::Linux6_12,
        Self::Newest,
    ];

    /// The oldest and the newest: most differences between kernels are between these.
    pub const ENDS: [Self; 2] = [Self::Linux5_10, Self::Newest];

    /// The release of Debian that has it, and what the name of its package begins with.
    fn package(self) -> (Release, &'static str) {
        match self {
            Self::Linux5_10 => (BULLSEYE, "linux-image-5.10.0-"),
            Self::Linux6_1 => (BOOKWORM, "linux-image-6.1.0-"),
            Self::Linux6_12 => (TRIXIE, "linux-image-6.12."),
            // There the image is no longer in `linux-image-…`.
            Self::Newest => (SID, "linux-binary-"),
        }
    }

    /// Its image and its release (as `uname -r` prints it), downloaded if they are not in the cache.
    pub(super) fn fetch(self, architecture: Architecture) -> Result<(PathBuf, String)> {
        let (release, prefix) = self.package();
        let release = release.of(architecture);
        let name = release.cache_name(&self.to_string());
        let directory = cache::ensure(&cache_directory()?, &name, |site| {
            download(site, release, prefix, &flavour(architecture))
        })?;
        let package = fs::read_to_string(directory.join(PACKAGE))
            .with_context(|| format!("remove {} and try again", directory.display()))?;
        let release = package.trim().splitn(3, '-').last().unwrap_or_default();
        Ok((directory.join(IMAGE), release.to_owned()))
    }
}

/// What the names of packages for virtual machines end with.
fn flavour(architecture: Architecture) -> String {
    format!("-cloud-{}", architecture.debian)
}

/// Downloads the newest kernel of a release that its mirror has: lists of a mirror may name files that it has no more.
fn download(site: &Site, release: Release, prefix: &str, flavour: &str) -> Result<()> {
    let packages = Apt::update(site, release)?;
    let names = packages.names(prefix)?;
    let mut first_error = None;
    let mut found = None;
    for package in newest(&names, prefix, flavour).into_iter().take(MAX_TRIED) {
        match packages.download(site, &[package]) {
            Ok(files) => {
                found = Some((package, files));
                break;
            }
            Err(error) => {
                println!("{package} cannot be downloaded: {error:#}");
                first_error.get_or_insert(error);
            }
        }
    }
    let Some((package, files)) = found else {
        let none = || anyhow!("Debian {release} has no package {prefix}…{flavour}");
        return Err(first_error.unwrap_or_else(none));
    };
    let root = site.scratch.join("root");
    debian::unpack(site, &files, &root)?;
    let image = image_in(&root)?;
    fs::copy(&image, site.unfinished.join(IMAGE))
        .with_context(|| format!("cannot copy {}", image.display()))?;
    fs::write(site.unfinished.join(PACKAGE), package)?;
    Ok(())
}

/// The kernels for virtual machines among packages whose names begin with `prefix`, newest first.
fn newest<'a>(names: &'a [String], prefix: &str, flavour: &str) -> Vec<&'a str> {
    let version = |name: &'a String| -> Option<Vec<u64>> {
        let version = name.strip_prefix(prefix)?.strip_suffix(flavour)?;
        let is_separator = |character| matches!(character, '.' | '+' | '-');
        let parts = version
            .split(is_separator)
            .map(|part| part.trim_start_matches("deb").parse());
        parts.collect::<Result<_, _>>().ok()
    };
    let versions = names.iter().filter_map(|name| Some((version(name)?, name)));
    let versions: BTreeMap<_, _> = versions.collect();
    versions.into_values().rev().map(String::as_str).collect()
}

/// The image of the kernel below `root`, wherever its package has it.
fn image_in(root: &Path) -> Result<PathBuf> {
    let images = capture(
        Command::new("find")
            .arg(root)
            .args(["-type", "f", "-name", "vmlinuz*"]),
    )?;
    let image = images
        .lines()
        .next()
        .context("the package has no kernel image")?;
    Ok(PathBuf::from(image))
}

/// Where kernels and hosts are kept: `$AGENT_VM_CACHE`, else below the project's cache.
pub(super) fn cache_directory() -> Result<PathBuf> {
    match env::var_os("AGENT_VM_CACHE") {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Ok(paths::cache()?.join("vm")),
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Linux5_10 => "5.10",
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
            Self::Newest => "newest",
        })
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL
            .into_iter()
            .find(|kernel| kernel.to_string() == name)
        {
            Some(kernel) => Ok(kernel),
            None => bail!(
                "the kernels are {}",
                Self::ALL.map(|kernel| kernel.to_string()).join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::X86_64;

    #[test]
    fn a_kernel_is_named_as_it_is_printed() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse::<Kernel>().unwrap(), kernel);
        }
        assert_eq!(
            "4.19".parse::<Kernel>().unwrap_err().to_string(),
            "the kernels are 5.10, 6.1, 6.12, newest"
        );
    }

    #[test]
    fn the_newest_package_of_the_flavour_is_the_first() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let old = names(&[
            "linux-image-5.10.0-9-cloud-amd64",
            "linux-image-5.10.0-32-cloud-amd64",
            "linux-image-5.10.0-33-amd64",
            "linux-image-5.10.0-40-rt-amd64",
        ]);
        let flavour = flavour(X86_64);
        let first = "linux-image-5.10.0-32-cloud-amd64";
        assert_eq!(
            newest(&old, "linux-image-5.10.0-", &flavour),
            [first, "linux-image-5.10.0-9-cloud-amd64"]
        );
        let new = names(&[
            "linux-binary-unsigned-7.2.13+deb14-cloud-amd64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
            "linux-binary-7.2.9+deb14-cloud-amd64",
        ]);
        let sorted = newest(&new, "linux-binary-", &flavour);
        assert_eq!(sorted[0], "linux-binary-7.2.13+deb14-cloud-amd64");
        assert!(newest(&new, "linux-binary-", "-cloud-arm64").is_empty());
    }
}
