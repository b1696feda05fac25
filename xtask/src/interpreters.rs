//! The Python interpreters that the tests profile: one per version built from source, as pyenv
//! has them, and one of the distribution, which is linked differently.
//!
//! Invariants: no version is left out silently; it is found, made, or an error names it. The
//! variable [`VARIABLE`] replaces the whole list.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::packages;
use crate::process::{capture, find_program, is_executable, succeeds};
use crate::roots;

/// Lists explicitly what to test: paths of interpreters, separated by colons. `cargo xtask test`
/// sets it for the tests that it runs.
pub const VARIABLE: &str = "AGENT_TEST_INTERPRETERS";

/// The minor versions of Python 3 that are tested.
const MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 8..=13;

/// The interpreter that Debian 12 links statically, with its own compiler flags.
const DISTRIBUTIONS: (u32, &str) = (11, "/usr/bin/python3.11");

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Its minor version: 11 for Python 3.11.
    pub minor: u32,
    /// The program.
    pub path: PathBuf,
}

impl fmt::Display for Interpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "3.{}\t{}", self.minor, self.path.display())
    }
}

/// The interpreters to test, made where they are missing.
///
/// # Errors
///
/// Naming the versions that can neither be found nor made.
pub fn ensure() -> Result<Vec<Interpreter>> {
    if let Some(paths) = env::var_os(VARIABLE) {
        return env::split_paths(&paths).map(listed).collect();
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    let versions = pyenv_root().map_or_else(Vec::new, |root| in_pyenv(&root));
    for minor in MINOR_VERSIONS {
        let interpreter = versions
            .iter()
            .find(|interpreter| interpreter.minor == minor)
            .cloned()
            .map_or_else(|| make(minor), Ok);
        match interpreter {
            Ok(interpreter) => found.push(interpreter),
            Err(error) => missing.push(format!("Python 3.{minor} ({error:#})")),
        }
    }
    match distributions() {
        Ok(interpreter) => found.push(interpreter),
        Err(error) => missing.push(format!("Debian 12's Python 3.11 ({error:#})")),
    }
    if !missing.is_empty() {
        bail!(
            "the tests need interpreters that cannot be found or made: {}; install them, or \
             list in {VARIABLE} what to test",
            missing.join("; ")
        );
    }
    Ok(found)
}

/// The value of [`VARIABLE`] that stands for these interpreters.
///
/// # Errors
///
/// When a path contains a colon.
pub fn variable(interpreters: &[Interpreter]) -> Result<OsString> {
    env::join_paths(interpreters.iter().map(|interpreter| &interpreter.path))
        .context("an interpreter's path contains a colon")
}

/// An interpreter that the user has listed.
fn listed(path: PathBuf) -> Result<Interpreter> {
    let version =
        capture(Command::new(&path).args(["-c", "import sys; print(sys.version_info[1])"]))?;
    let minor = version
        .parse()
        .with_context(|| format!("{} is no Python interpreter", path.display()))?;
    Ok(Interpreter { minor, path })
}

fn pyenv_root() -> Option<PathBuf> {
    env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".pyenv")))
}

/// The interpreters below pyenv's root; of each minor version the latest.
fn in_pyenv(root: &Path) -> Vec<Interpreter> {
    let Ok(entries) = fs::read_dir(root.join("versions")) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            // Names that are no plain versions are virtual environments, other implementations
            // or free-threaded builds.
            let name = entry.file_name().into_string().ok()?;
            let (minor, micro) = name.strip_prefix("3.")?.split_once('.')?;
            let (minor, micro): (u32, u32) = (minor.parse().ok()?, micro.parse().ok()?);
            let path = entry.path().join(format!("bin/python3.{minor}"));
            is_executable(&path).then_some((minor, micro, path))
        })
        .collect();
    found.sort();
    found.reverse();
    found.dedup_by_key(|(minor, _, _)| *minor);
    found
        .into_iter()
        .map(|(minor, _, path)| Interpreter { minor, path })
        .collect()
}

/// Makes an interpreter of this version: with pyenv, else with a Debian release that has it.
fn make(minor: u32) -> Result<Interpreter> {
    let program = format!("python3.{minor}");
    if let Some(path) = debian_release(minor).and_then(|suite| roots::find(suite, &program)) {
        return Ok(Interpreter { minor, path });
    }
    let built = find_program("pyenv").is_some_and(|pyenv| {
        println!("building Python 3.{minor} with pyenv");
        let version = format!("3.{minor}");
        succeeds(Command::new(pyenv).args(["install", "--skip-existing", &version]))
    });
    if built {
        let versions = pyenv_root().map_or_else(Vec::new, |root| in_pyenv(&root));
        if let Some(interpreter) = versions.into_iter().find(|one| one.minor == minor) {
            return Ok(interpreter);
        }
    }
    from_debian(minor)
}

fn distributions() -> Result<Interpreter> {
    let (minor, path) = DISTRIBUTIONS;
    let path = PathBuf::from(path);
    if !is_executable(&path) {
        let package = format!("python3.{minor}");
        if !packages::is_available(&package) {
            return from_debian(minor);
        }
        packages::install(&[&package])?;
    }
    Ok(Interpreter { minor, path })
}

fn from_debian(minor: u32) -> Result<Interpreter> {
    let suite = debian_release(minor).with_context(|| {
        format!("`pyenv install 3.{minor}` fails, and no Debian release has it")
    })?;
    let program = format!("python3.{minor}");
    let path = roots::find(suite, &program).map_or_else(|| roots::make(suite, &program), Ok)?;
    Ok(Interpreter { minor, path })
}

/// The supported Debian release with this version.
fn debian_release(minor: u32) -> Option<&'static str> {
    match minor {
        9 => Some("bullseye"),
        11 => Some("bookworm"),
        13 => Some("trixie"),
        _ => None,
    }
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

        let found: Vec<_> = in_pyenv(root.path())
            .into_iter()
            .map(|interpreter| {
                let path = interpreter
                    .path
                    .strip_prefix(root.path())
                    .unwrap()
                    .to_owned();
                (interpreter.minor, path)
            })
            .collect();
        assert_eq!(
            found,
            [
                (13, PathBuf::from("versions/3.13.0/bin/python3.13")),
                (8, PathBuf::from("versions/3.8.18/bin/python3.8")),
            ]
        );
    }

    #[test]
    fn an_interpreter_is_printed_as_version_tab_path() {
        let interpreter = Interpreter {
            minor: 11,
            path: PathBuf::from("/usr/bin/python3.11"),
        };
        assert_eq!(interpreter.to_string(), "3.11\t/usr/bin/python3.11");
    }
}
