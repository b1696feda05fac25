//! Busybox and Python for machines of another architecture, with the libraries that they and the agent need.
//!
//! Invariant: an image of them is made once per machine, in the cache, of packages that are unpacked, not installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::guest;
use super::kernel::cache_directory;
use crate::architecture::Architecture;
use crate::cache;
use crate::debian::{self, Apt, Release, TRIXIE};
use crate::tools;

/// The release that they are of, whose C library must not be older than the one that the agent is built with.
const RELEASE: Release = TRIXIE;

const PACKAGES: [&str; 3] = ["busybox-static", "libgcc-s1", "python3"];

/// Directories that packages expect to be links to those in `usr`.
const LINKS: [&str; 3] = ["bin", "lib", "sbin"];

/// What no program reads: every byte is one more that an emulated processor copies.
const LEFT_OUT: [&str; 6] = ["doc", "i18n", "info", "locale", "man", "zoneinfo"];

/// The image in its directory.
const IMAGE: &str = "image";

/// The image of the programs, made if it is not in the cache.
pub(super) fn image(architecture: Architecture) -> Result<PathBuf> {
    let release = RELEASE.of(architecture);
    let name = release.cache_name(&format!("programs-{release}"));
    let directory = cache::ensure(&cache_directory()?, &name, |site| {
        tools::CPIO.ensure()?;
        let packages = Apt::update(site, release)?.download_closure(site, &PACKAGES)?;
        let root = site.scratch.join("root");
        for name in ["dev", "proc", "sys", "tmp"] {
            fs::create_dir_all(root.join(name))?;
        }
        for name in LINKS {
            let target = format!("usr/{name}");
            fs::create_dir_all(root.join(&target))?;
            symlink(&target, root.join(name)).context("cannot make a link")?;
        }
        debian::unpack(site, &packages, &root)?;
        for name in LEFT_OUT {
            // Not all are there.
            drop(fs::remove_dir_all(root.join("usr/share").join(name)));
        }
        symlink("busybox", root.join("usr/bin/sh")).context("cannot make a link")?;
        guest::pack(&root, fs::File::create(site.unfinished.join(IMAGE))?)
    })?;
    Ok(directory.join(IMAGE))
}
