//! The Go toolchains that the tests run: the oldest supported one and the newest.
//!
//! Invariants: both are fetched, verified and never installed; what they compile is kept in a
//! cache of their own. Nothing of the user's Go applies: neither its settings, its workspaces and
//! modules, nor other toolchains.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::distribution::{GCC, UNZIP};
use crate::cache::{Shelf, Site};
use crate::debian::{self, Apt, BOOKWORM, Release};
use crate::paths;

/// Where the toolchains are in the cache.
const SHELF: Shelf = Shelf("go");

/// The oldest one is that of this release of Debian.
const OLDEST: (Release, &str) = (BOOKWORM, "1.19");

/// The newest one, and the SHA-256 of its module for each architecture.
const NEWEST: &str = "1.26.9";
const NEWEST_SHA256: [(&str, &str); 2] = [
    (
        "amd64",
        "230491b72a467789b089cbfff44e19eb45cb60fb071970bcbe1e9a9384554637",
    ),
    (
        "arm64",
        "aa25343a269cb69276888c9a783227b24d6818c42c5e1bcc8a482f382b2fb299",
    ),
];

/// What the entries of the module begin with, before the version and the platform.
const MODULE: &str = "golang.org/toolchain@v0.0.1-go";

/// Directories whose files are programs, which the module's archive does not say.
const PROGRAMS: [&str; 2] = ["bin", "pkg/tool"];

/// Directories that are modules of their own, whose `go.mod` has another name in the archive, which
/// is that of one module.
const MODULES: [&str; 2] = ["src", "src/cmd"];

/// A Go toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go {
    version: &'static str,
    root: PathBuf,
    cache: PathBuf,
}

/// Both toolchains, the oldest first.
///
/// # Errors
///
/// When one is not there and cannot be fetched.
pub fn all() -> Result<[Go; 2]> {
    Ok([oldest()?, newest()?])
}

/// The oldest toolchain whose programs are supported.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn oldest() -> Result<Go> {
    let (_, version) = OLDEST;
    let directory = SHELF
        .ensure(version, unpack_oldest)
        .with_context(|| format!("the tests need Go {version}"))?;
    Go::at(version, directory.join(format!("usr/lib/go-{version}")))
}

/// The newest toolchain.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn newest() -> Result<Go> {
    let directory = SHELF
        .ensure(NEWEST, unpack_newest)
        .with_context(|| format!("the tests need Go {NEWEST}"))?;
    Go::at(NEWEST, directory)
}

impl Go {
    fn at(version: &'static str, root: PathBuf) -> Result<Self> {
        let cache = paths::cache()?.join("go-cache").join(version);
        Ok(Self {
            version,
            root,
            cache,
        })
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Its minor version: 19 for Go 1.19.
    #[must_use]
    pub fn minor(&self) -> u32 {
        let minor = self.version.split('.').nth(1).unwrap_or_default();
        minor.parse().unwrap_or_default()
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A command of its program `go`, for packages outside of modules.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.root.join("bin/go"));
        command
            .env("GOROOT", &self.root)
            .env("GOCACHE", &self.cache)
            .env("GO111MODULE", "off")
            .env("GOENV", "off")
            .env("GOTOOLCHAIN", "local")
            .env("CC", GCC.path())
            .env_remove("GOFLAGS")
            .env_remove("GOPATH")
            .env_remove("GOARCH")
            .env_remove("GOOS")
            .env_remove("GOAMD64")
            .env_remove("GOEXPERIMENT")
            .env_remove("CGO_ENABLED");
        command
    }

    /// A command of its program `go` in a module, whose dependencies are those of its `go.sum` and
    /// are kept in `modules`.
    pub(crate) fn in_module(&self, module: &Path, modules: &Path) -> Command {
        let mut command = self.command();
        command
            .current_dir(module)
            .env("GO111MODULE", "on")
            // A cache of modules is otherwise read-only and could not be removed.
            .env("GOFLAGS", "-modcacherw -mod=readonly")
            .env("GOPATH", modules)
            .env("GOWORK", "off");
        command
    }
}

/// Unpacks Debian's packages.
fn unpack_oldest(site: &Site) -> Result<()> {
    let (release, version) = OLDEST;
    let names = ["go", "src"].map(|part| format!("golang-{version}-{part}"));
    let packages = Apt::update(site, release)?.download(site, &names.each_ref().map(|it| &**it))?;
    debian::unpack(site, &packages, &site.unfinished)
}

/// Unpacks the module of the toolchain.
fn unpack_newest(site: &Site) -> Result<()> {
    let unzip = UNZIP.ensure()?;
    let architecture = architecture(ARCH)?;
    let (_, sha256) = NEWEST_SHA256
        .into_iter()
        .find(|(known, _)| *known == architecture)
        .with_context(|| format!("no archive of Go is pinned for {architecture}"))?;
    let archive = site.scratch.join("go.zip");
    site.download(&address(architecture), sha256, &archive)?;
    site.run(
        Command::new(unzip)
            .arg("-q")
            .arg(&archive)
            .arg("-d")
            .arg(&site.scratch),
    )?;
    let root = site
        .scratch
        .join(format!("{MODULE}{NEWEST}.linux-{architecture}"));
    for directory in PROGRAMS {
        make_executable(&root.join(directory))?;
    }
    for directory in MODULES {
        let directory = root.join(directory);
        fs::rename(directory.join("_go.mod"), directory.join("go.mod"))?;
    }
    fs::remove_dir(&site.unfinished)?;
    fs::rename(root, &site.unfinished)?;
    Ok(())
}

/// Where the module's archive is.
fn address(architecture: &str) -> String {
    let module = MODULE.replace('@', "/@v/");
    format!("https://proxy.golang.org/{module}{NEWEST}.linux-{architecture}.zip")
}

/// What Go calls an architecture.
fn architecture(rust: &str) -> Result<&'static str> {
    match rust {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no Go is pinned for {other}"),
    }
}

/// Makes the files below a directory executable.
fn make_executable(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_executable(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_of_the_newest_is_in_the_module_proxy() {
        assert_eq!(
            address("amd64"),
            format!(
                "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go{NEWEST}.linux-amd64.zip"
            )
        );
        for rust in ["x86_64", "aarch64"] {
            let architecture = architecture(rust).unwrap();
            assert!(
                NEWEST_SHA256
                    .iter()
                    .any(|(known, _)| *known == architecture)
            );
        }
    }

    #[test]
    fn a_command_runs_that_go_and_nothing_of_the_users() {
        let go = Go::at("1.26", PathBuf::from("/go")).unwrap();
        let command = go.command();
        assert_eq!(command.get_program(), "/go/bin/go");
        assert_eq!(go.minor(), 26);
        let value = |wanted: &str| command.get_envs().find(|(name, _)| *name == wanted);
        assert_eq!(value("GOTOOLCHAIN").unwrap().1.unwrap(), "local");
        assert_eq!(value("GOFLAGS").unwrap().1, None);
    }
}
