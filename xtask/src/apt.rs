//! What other releases of Debian have, by apt with sources and a state of its own.
//!
//! Invariants: the machine's own sources and packages stay as they are; everything is verified
//! with the keys of Debian's archive. The machine's other settings hold, such as those of a
//! proxy. What is kept of a release is used by one process at a time, others wait.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};

use crate::once::Site;
use crate::packages;
use crate::paths;
use crate::process::find_program;

/// Where packages are.
pub(crate) const MIRROR: &str = "http://deb.debian.org/debian";

/// Where those of a release are that is no longer supported.
pub(crate) const ARCHIVE: &str = "http://archive.debian.org/debian";

/// What verifies them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The releases whose lists this process has fetched.
static UPDATED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// The packages of a release of Debian.
pub(crate) struct Apt {
    state: PathBuf,
}

impl Apt {
    /// Those of `release`, as of now.
    pub(crate) fn updated(site: &Site, release: &str) -> Result<Self> {
        find_program("apt-get").context("there is no apt-get on this machine")?;
        if !Path::new(KEYRING).exists() {
            packages::install(&["debian-archive-keyring"])?;
        }
        let state = paths::cache()?.join("apt").join(release);
        let apt = Self { state };
        let mut updated = UPDATED.lock().unwrap_or_else(PoisonError::into_inner);
        let updated = updated.get_or_insert_default();
        if !updated.contains(&apt.state) {
            let _alone = apt.lock()?;
            apt.update(site, release, MIRROR)
                .or_else(|error| apt.update(site, release, ARCHIVE).map_err(|_| error))?;
            updated.insert(apt.state.clone());
        }
        Ok(apt)
    }

    /// Downloads binary packages, with all that they depend on, to the directory `to`.
    pub(crate) fn download(&self, site: &Site, packages: &[&str], to: &Path) -> Result<()> {
        let _alone = self.lock()?;
        fs::create_dir_all(to.join("partial"))?;
        let mut archives = "Dir::Cache::archives=".to_owned();
        archives.push_str(to.to_str().context("the cache's path is no text")?);
        site.run(
            self.get("install")
                .args(["--yes", "--download-only", "--no-install-recommends"])
                .args(["--option", &archives])
                .args(packages),
        )
    }

    /// Downloads a binary package, without what it depends on, to the scratch directory.
    pub(crate) fn download_alone(&self, site: &Site, package: &str) -> Result<()> {
        let _alone = self.lock()?;
        site.run(self.get("download").arg(package).current_dir(&site.scratch))
    }

    /// Downloads a source package into the directory `to`.
    pub(crate) fn download_source(&self, site: &Site, package: &str, to: &Path) -> Result<()> {
        let _alone = self.lock()?;
        site.run(
            self.get("source")
                .args(["--download-only", package])
                .current_dir(to),
        )
    }

    fn update(&self, site: &Site, release: &str, mirror: &str) -> Result<()> {
        for directory in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(self.state.join(directory))?;
        }
        let options = format!("[signed-by={KEYRING}] {mirror} {release} main");
        fs::write(
            self.state.join("sources.list"),
            format!("deb {options}\ndeb-src {options}\n"),
        )?;
        // As if nothing were installed, so that all dependencies are fetched.
        fs::write(self.state.join("status"), "")?;
        fs::write(self.state.join("apt.conf"), configuration(&self.state))?;
        site.run(
            self.get("update")
                .args(["--option", "APT::Update::Error-Mode=any"]),
        )
    }

    /// Waits until nobody else uses what is kept of the release, as long as the file is open.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.state)?;
        let lock = File::create(self.state.join("in-use"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn get(&self, command: &str) -> Command {
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "--config-file"])
            .arg(self.state.join("apt.conf"))
            .arg(command);
        apt
    }
}

/// Fetches what has this SHA-256.
pub(crate) fn fetch(site: &Site, address: &str, sha256: &str, to: &Path) -> Result<()> {
    site.run(
        Command::new("/usr/lib/apt/apt-helper")
            .args(["-o", "APT::Sandbox::User=", "download-file", address])
            .arg(to)
            .arg(format!("SHA256:{sha256}")),
    )
}

/// Whether what [`fetch`] should have put into this file came with another hash, and was put aside.
pub(crate) fn has_other_hash(file: &Path) -> bool {
    let mut aside = file.as_os_str().to_owned();
    aside.push(".FAILED");
    Path::new(&aside).exists()
}

/// What the package in a file is called: what stands before its version.
pub(crate) fn name_of(package: &Path) -> &str {
    let name = package.file_name().and_then(|name| name.to_str());
    let (name, _) = name
        .and_then(|name| name.split_once('_'))
        .unwrap_or_default();
    name
}

/// The packages that were downloaded to a directory, by name.
pub(crate) fn downloaded(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut packages = entries.collect::<Result<Vec<_>>>()?;
    packages.retain(|file| file.extension().is_some_and(|extension| extension == "deb"));
    packages.sort();
    Ok(packages)
}

/// Puts the files of packages below `root`, one after the other.
pub(crate) fn unpack(site: &Site, packages: &[PathBuf], root: &Path) -> Result<()> {
    packages.iter().try_for_each(|package| {
        site.run(
            Command::new("dpkg-deb")
                .arg("-x")
                .args([package.as_path(), root]),
        )
    })
}

fn configuration(state: &Path) -> String {
    let state = state.display();
    format!(
        r#"// What the machine does when its own packages change.
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::Check-Valid-Until "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
APT::Sandbox::User "";
Dir::Cache "{state}";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "{state}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "{state}";
Dir::State::status "{state}/status";
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_keeps_to_its_own_state() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(
            directory.path().join("apt.conf"),
            configuration(directory.path()),
        )
        .unwrap();
        let Some(program) = find_program("apt-config") else {
            return;
        };
        let shown = crate::process::capture(
            Command::new(program)
                .arg("--config-file")
                .arg(directory.path().join("apt.conf"))
                .args(["shell", "STATE", "Dir::State/d", "STATUS"])
                .args(["Dir::State::status/f", "LISTS", "Dir::State::lists/d"]),
        )
        .unwrap();
        let state = directory.path().display();
        assert_eq!(
            shown,
            format!("STATE='{state}/'\nSTATUS='{state}/status'\nLISTS='{state}/lists/'")
        );
    }
}
