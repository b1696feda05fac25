//! apt with sources and a state of its own, for one release.
//!
//! Invariants: the machine's own sources and packages stay as they are, its other settings hold,
//! such as those of a proxy. The state of a release is used by one process at a time, others wait.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

use super::{Package, Release, Snapshot, packages_in};
use crate::cache::Site;
use crate::packages;
use crate::paths;
use crate::process::{capture, find_program};

/// The mirror of all supported releases.
pub(crate) const MIRROR: &str = "http://deb.debian.org/debian";

/// The mirror of releases that are no longer supported.
pub(crate) const ARCHIVE: &str = "http://archive.debian.org/debian";

/// All earlier states of the archive.
const SNAPSHOTS: &str = "http://snapshot.debian.org/archive/debian";

/// The keys that sign releases.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The states whose lists this process has fetched.
static UPDATED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// The packages of a release.
pub(crate) struct Apt {
    state: PathBuf,
}

/// One line of `sources.list`.
struct Source {
    mirror: String,
    suite: String,
}

impl Apt {
    /// Fetches the lists of packages of `release`, once per process.
    pub(crate) fn update(site: &Site, release: Release) -> Result<Self> {
        find_program("apt-get").context("there is no apt-get on this machine: install apt")?;
        if !Path::new(KEYRING).exists() {
            packages::install(&["debian-archive-keyring"])?;
        }
        let state = paths::cache()?.join("debian").join(release.state_name());
        let apt = Self { state };
        let mut updated = UPDATED.lock().unwrap_or_else(PoisonError::into_inner);
        let updated = updated.get_or_insert_default();
        if !updated.contains(&apt.state) {
            let _alone = apt.lock()?;
            apt.configure(release)?;
            match release.snapshot {
                Some(snapshot) => apt.fetch_snapshot(site, release, snapshot)?,
                None => apt.fetch_stable(site, release)?,
            }
            updated.insert(apt.state.clone());
        }
        Ok(apt)
    }

    /// Downloads binary packages without what they depend on.
    pub(crate) fn download(&self, site: &Site, packages: &[&str]) -> Result<Vec<Package>> {
        let _alone = self.lock()?;
        let directory = site.scratch.join("packages");
        fs::create_dir_all(&directory)?;
        site.run(self.get("download").args(packages).current_dir(&directory))?;
        packages_in(&directory)
    }

    /// Downloads binary packages with all that they depend on.
    pub(crate) fn download_closure(&self, site: &Site, packages: &[&str]) -> Result<Vec<Package>> {
        let _alone = self.lock()?;
        let directory = site.scratch.join("packages");
        fs::create_dir_all(directory.join("partial"))?;
        let mut archives = "Dir::Cache::archives=".to_owned();
        archives.push_str(
            directory
                .to_str()
                .context("the cache's path is not UTF-8")?,
        );
        site.run(
            self.get("install")
                .args(["--yes", "--download-only", "--no-install-recommends"])
                .args(["--option", &archives])
                .args(packages),
        )?;
        packages_in(&directory)
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

    /// The names of all binary packages that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let _alone = self.lock()?;
        let names = capture(self.command("apt-cache", "pkgnames").arg(prefix))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Fetches the lists of a snapshot, or those of the mirror if that fails, with a warning if they
    /// differ.
    fn fetch_snapshot(&self, site: &Site, release: Release, snapshot: Snapshot) -> Result<()> {
        let address = format!("{SNAPSHOTS}/{}", snapshot.timestamp);
        let pinned = Source::new(&address, release.suite);
        let Err(error) = self.fetch_lists(site, &[&pinned]) else {
            return Ok(());
        };
        let mirror = Source::new(MIRROR, release.suite);
        self.fetch_lists(site, &[&mirror])?;
        let date = self.date(&mirror).context("its Release file has no Date")?;
        if date != snapshot.date {
            println!(
                "warning: the packages of Debian {release} are of {date} and not of {}, because the \
                 snapshot cannot be fetched: {error:#}",
                snapshot.date
            );
        }
        Ok(())
    }

    /// Fetches the lists of a release and of its security updates from wherever they are.
    fn fetch_stable(&self, site: &Site, release: Release) -> Result<()> {
        let releases = [MIRROR, ARCHIVE].map(|mirror| Source::new(mirror, release.suite));
        let fixes = [MIRROR, ARCHIVE].map(|mirror| Source {
            mirror: format!("{mirror}-security"),
            suite: format!("{release}-security"),
        });
        let sources: Vec<_> = releases.iter().chain(&fixes).collect();
        // Each moves from the one mirror to the other at a time of its own.
        let fetched = self.fetch_lists(site, &sources);
        let is_found = releases.iter().any(|source| self.date(source).is_some());
        if !is_found {
            fetched?;
        }
        ensure!(is_found, "no mirror has Debian {release}");
        Ok(())
    }

    /// Fetches the lists of `sources`; an error if one is missing, also when others are there.
    fn fetch_lists(&self, site: &Site, sources: &[&Source]) -> Result<()> {
        let lines: String = sources.iter().map(|source| source.lines()).collect();
        fs::write(self.state.join("sources.list"), lines)?;
        site.run(
            self.get("update")
                .args(["--option", "APT::Update::Error-Mode=any"])
                // Where another source is tried next, a network that is not there must not take long.
                .args(["--option", "Acquire::Retries=1"]),
        )
    }

    /// The date of the lists of a source, if they are there.
    fn date(&self, source: &Source) -> Option<String> {
        let release = fs::read_to_string(self.state.join("lists").join(source.file())).ok()?;
        let date = release
            .lines()
            .find_map(|line| line.strip_prefix("Date: "))?;
        Some(date.to_owned())
    }

    fn configure(&self, release: Release) -> Result<()> {
        for directory in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(self.state.join(directory))?;
        }
        // As if nothing were installed, so that all dependencies are downloaded.
        fs::write(self.state.join("status"), "")?;
        let configuration = configuration(&self.state, release.architecture);
        fs::write(self.state.join("apt.conf"), configuration)?;
        Ok(())
    }

    /// Waits until no other process uses the state, and keeps others waiting while the file is open.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.state)?;
        let lock = File::create(self.state.join("in-use"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn get(&self, command: &str) -> Command {
        let mut apt = self.command("apt-get", command);
        apt.arg("--quiet");
        apt
    }

    fn command(&self, program: &str, command: &str) -> Command {
        let mut apt = Command::new(program);
        apt.arg("--config-file")
            .arg(self.state.join("apt.conf"))
            .arg(command);
        apt
    }
}

impl Source {
    fn new(mirror: &str, suite: &str) -> Self {
        Self {
            mirror: mirror.to_owned(),
            suite: suite.to_owned(),
        }
    }

    /// The lines of `sources.list` for its binary and source packages.
    fn lines(&self) -> String {
        let Self { mirror, suite } = self;
        let source = format!("[signed-by={KEYRING}] {mirror} {suite} main");
        format!("deb {source}\ndeb-src {source}\n")
    }

    /// The name of apt's copy of its `InRelease` file.
    fn file(&self) -> String {
        let address = self.mirror.trim_start_matches("http://").replace('/', "_");
        format!("{address}_dists_{}_InRelease", self.suite)
    }
}

fn configuration(state: &Path, architecture: Option<&str>) -> String {
    let state = state.display();
    let architecture = architecture.map_or_else(String::new, |name| {
        format!("APT::Architecture \"{name}\";\nAPT::Architectures {{ \"{name}\"; }};\n")
    });
    format!(
        r#"// What the machine does when its own packages change.
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::Check-Valid-Until "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
{architecture}APT::Sandbox::User "";
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
            configuration(directory.path(), None),
        )
        .unwrap();
        let Some(program) = find_program("apt-config") else {
            return;
        };
        let shown = capture(
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

    #[test]
    fn the_lists_of_a_source_are_found() {
        let source = Source::new(MIRROR, "sid");
        assert_eq!(source.file(), "deb.debian.org_debian_dists_sid_InRelease");
        assert!(
            source
                .lines()
                .starts_with("deb [signed-by=/usr/share/keyrings/")
        );
        assert!(
            source
                .lines()
                .ends_with("] http://deb.debian.org/debian sid main\n")
        );
    }
}
