//! Interpreters of pyenv's: plain builds from source, with debug information.
//!
//! Invariant: pyenv need not be installed: without it the one of Debian's latest stable release is
//! unpacked in the cache, which then also holds its builds.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::debian::{self, TRIXIE};
use crate::packages;
use crate::paths;
use crate::process::{capture, find_program, is_executable};

/// What its builds need.
const BUILD_PACKAGES: [&str; 11] = [
    "build-essential",
    "curl",
    "libbz2-dev",
    "libffi-dev",
    "liblzma-dev",
    "libncurses-dev",
    "libreadline-dev",
    "libsqlite3-dev",
    "libssl-dev",
    "xz-utils",
    "zlib1g-dev",
];

/// A build of pyenv's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build {
    /// Major, minor and micro version.
    pub version: (u32, u32, u32),
    /// The program.
    pub path: PathBuf,
}

/// The plain builds that are there, the newest first; of each minor version only the latest.
#[must_use]
pub fn builds() -> Vec<Build> {
    let roots = [users_root(), own_root().ok()];
    latest(roots.into_iter().flatten().flat_map(|root| below(&root)))
}

/// The program of this version, built if it is not there.
pub(super) fn ensure(major: u32, minor: u32) -> Result<PathBuf> {
    let find = || {
        builds()
            .into_iter()
            .find(|build| (build.version.0, build.version.1) == (major, minor))
            .map(|build| build.path)
    };
    if let Some(path) = find() {
        return Ok(path);
    }
    let mut pyenv = match find_program("pyenv") {
        Some(pyenv) => Command::new(pyenv),
        None => unpacked()?,
    };
    let version = format!("{major}.{minor}");
    println!("building Python {version} with pyenv");
    capture(pyenv.args(["install", "--skip-existing", &version]))?;
    find().with_context(|| format!("`pyenv install {version}` has not made it"))
}

/// A command for Debian's pyenv.
fn unpacked() -> Result<Command> {
    packages::install(&BUILD_PACKAGES)?;
    let pyenv = debian::program(TRIXIE, "pyenv", "pyenv")?;
    let mut command = Command::new(&pyenv);
    // pyenv finds its own programs by `PATH`.
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = pyenv.parent().map(Path::to_owned);
    let path = env::join_paths(programs.into_iter().chain(env::split_paths(&path)))?;
    command.env("PATH", path).env("PYENV_ROOT", own_root()?);
    Ok(command)
}

/// Where a pyenv that the user has installed has its builds.
fn users_root() -> Option<PathBuf> {
    env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".pyenv")))
}

/// Where the unpacked one has its builds.
fn own_root() -> Result<PathBuf> {
    Ok(paths::cache()?.join("pyenv"))
}

fn below(root: &Path) -> Vec<Build> {
    let Ok(entries) = fs::read_dir(root.join("versions")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let version = plain_version(entry.file_name().to_str()?)?;
            let (major, minor, _) = version;
            let path = entry.path().join(format!("bin/python{major}.{minor}"));
            is_executable(&path).then_some(Build { version, path })
        })
        .collect()
}

/// Of each minor version the latest build, the newest version first.
fn latest(builds: impl Iterator<Item = Build>) -> Vec<Build> {
    let mut found: Vec<_> = builds.collect();
    found.sort();
    found.reverse();
    found.dedup_by_key(|build| (build.version.0, build.version.1));
    found
}

/// Names that are no plain versions are virtual environments, other implementations or
/// free-threaded builds.
fn plain_version(name: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = name.split('.').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let version = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn of_each_minor_version_the_latest_plain_build_is_taken() {
        let root = tempfile::tempdir().unwrap();
        for (version, program) in [
            ("3.8.2", "python3.8"),
            ("3.8.18", "python3.8"),
            ("3.13.0", "python3.13"),
            ("3.13.5t", "python3.13"),
            ("pypy3.9-7.3", "python3.9"),
            ("2.7.18", "python2.7"),
        ] {
            let directory = root.path().join("versions").join(version).join("bin");
            fs::create_dir_all(&directory).unwrap();
            let program = directory.join(program);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // A version that was never built to its end.
        fs::create_dir_all(root.path().join("versions/3.9.1/bin")).unwrap();

        let found: Vec<_> = latest(below(root.path()).into_iter())
            .into_iter()
            .map(|build| {
                let path = build.path.strip_prefix(root.path()).unwrap().to_owned();
                (build.version, path)
            })
            .collect();
        let path = |path| PathBuf::from("versions").join(path);
        assert_eq!(
            found,
            [
                ((3, 13, 0), path("3.13.0/bin/python3.13")),
                ((3, 8, 18), path("3.8.18/bin/python3.8")),
                ((2, 7, 18), path("2.7.18/bin/python2.7")),
            ]
        );
    }
}
