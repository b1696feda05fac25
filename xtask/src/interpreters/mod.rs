//! The Python interpreters that the tests profile: every supported version, each kind of build that
//! differs for a profiler, and versions that the profiler must refuse.
//!
//! Invariants: none is skipped silently; each is found, made, or named with the reason why not. The
//! variable [`VARIABLE`] replaces the whole list.

mod catalog;
mod interpreter;
pub mod pyenv;
pub mod roots;
mod source;

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;

use anyhow::{Context as _, Result, bail};

pub use interpreter::{Interpreter, Linkage};

use crate::cache::Shelf;

/// Paths of the interpreters to test, separated by colons. `cargo xtask test`
/// sets it for the tests that it runs.
pub const VARIABLE: &str = "AGENT_TEST_INTERPRETERS";

/// Set where tests that take long run with all the interpreters that they are for. `--all-versions` sets it.
pub const ALL_VERSIONS: &str = "AGENT_TEST_ALL_VERSIONS";

/// Enough for tests that take long: each layout of threads, frames and tables of lines, and each kind of build.
const FEW: [&str; 9] = [
    "2.7",
    "3.8",
    "3.10",
    "3.12",
    "3.13-musl",
    "3.14-tail-call",
    "3.14t",
    "3.15-sid",
    catalog::DISTRIBUTION.0,
];

/// The interpreters that are made, in the cache.
const SHELF: Shelf = Shelf("interpreters");

/// Interpreters that this machine has or can make, and those that it cannot.
#[derive(Debug, Default)]
pub struct Available {
    /// Those that are there.
    pub found: Vec<Interpreter>,
    /// The names of the others, each with the reason.
    pub missing: Vec<(&'static str, anyhow::Error)>,
}

/// Every interpreter, made where it is missing; the distribution's comes last.
///
/// # Errors
///
/// When a path in [`VARIABLE`] is not that of an interpreter.
pub fn available() -> Result<Available> {
    let mut available = Available::default();
    if let Some(paths) = env::var_os(VARIABLE) {
        for path in env::split_paths(&paths) {
            available.found.push(Interpreter::at(&path)?);
        }
        return Ok(available);
    }
    for (name, origin) in catalog::ALL {
        match origin.ensure(name).and_then(|path| Interpreter::at(&path)) {
            Ok(interpreter) => available.found.push(interpreter),
            Err(error) => available.missing.push((name, error)),
        }
    }
    Ok(available)
}

/// The same, if none is missing.
///
/// # Errors
///
/// As [`available`], and with the names of those that can neither be found nor made.
pub fn all() -> Result<Vec<Interpreter>> {
    let Available { found, missing } = available()?;
    if !missing.is_empty() {
        let missing: Vec<_> = missing
            .iter()
            .map(|(name, error)| format!("{name} ({error:#})"))
            .collect();
        bail!(
            "interpreters cannot be found or made: {}; install them, or list in {VARIABLE} what \
             to test",
            missing.join("; ")
        );
    }
    Ok(found)
}

/// For tests that take long: [`enough`] of all, of each layout and each kind of build.
///
/// # Errors
///
/// As [`all`].
pub fn few() -> Result<Vec<Interpreter>> {
    Ok(enough(all()?, |it| FEW.contains(&&*it.name)))
}

/// Those of some interpreters with which a test that takes long is to run, where these are enough for it: all of them if
/// [`ALL_VERSIONS`] is set, or if none of these is there.
#[must_use]
pub fn enough(
    interpreters: Vec<Interpreter>,
    is_enough: impl Fn(&Interpreter) -> bool,
) -> Vec<Interpreter> {
    if env::var_os(ALL_VERSIONS).is_some() {
        return interpreters;
    }
    some(interpreters, is_enough)
}

/// Those of some interpreters that satisfy a predicate, or all if none does.
fn some(
    interpreters: Vec<Interpreter>,
    is_wanted: impl Fn(&Interpreter) -> bool,
) -> Vec<Interpreter> {
    if !interpreters.iter().any(&is_wanted) {
        return interpreters;
    }
    interpreters.into_iter().filter(is_wanted).collect()
}

/// One for each version, for tests that take long: the first in the list that is an ordinary
/// build.
///
/// # Errors
///
/// As [`all`].
pub fn representatives() -> Result<Vec<Interpreter>> {
    Ok(one_per_version(all()?))
}

/// The distribution's own, which most hosts have; no other is made for it.
///
/// # Errors
///
/// As [`named`].
pub fn distribution() -> Result<Interpreter> {
    named(catalog::DISTRIBUTION.0)
}

/// The one with this name, for example `3.13t`; no other is made for it.
///
/// # Errors
///
/// When there is none of this name, or it can neither be found nor made.
pub fn named(name: &str) -> Result<Interpreter> {
    if env::var_os(VARIABLE).is_some() {
        return all()?
            .into_iter()
            .find(|interpreter| interpreter.name == name)
            .with_context(|| format!("{VARIABLE} lists no interpreter {name}"));
    }
    let (name, origin) = catalog::ALL
        .iter()
        .find(|(known, _)| *known == name)
        .with_context(|| {
            format!("there is no interpreter {name}: `cargo xtask interpreters` lists all")
        })?;
    Interpreter::at(&origin.ensure(name)?).with_context(|| format!("the tests need {name}"))
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

fn one_per_version(mut interpreters: Vec<Interpreter>) -> Vec<Interpreter> {
    let mut versions = HashSet::new();
    interpreters.retain(|interpreter| {
        interpreter.is_ordinary() && versions.insert((interpreter.major, interpreter.minor))
    });
    interpreters
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn interpreter(name: &str, version: (u32, u32)) -> Interpreter {
        Interpreter {
            name: name.to_owned(),
            major: version.0,
            minor: version.1,
            path: PathBuf::from(name),
            free_threaded: name.ends_with('t'),
            debug: name.ends_with("debug"),
            linkage: Linkage::Static,
        }
    }

    fn names(interpreters: &[Interpreter]) -> Vec<&str> {
        interpreters
            .iter()
            .map(|interpreter| interpreter.name.as_str())
            .collect()
    }

    #[test]
    fn a_few_interpreters_are_enough_where_they_are_there() {
        assert!(
            FEW.iter()
                .all(|few| catalog::ALL.iter().any(|(name, _)| name == few))
        );
        let found = || vec![interpreter("3.7", (3, 7)), interpreter("3.8", (3, 8))];
        let chosen = some(found(), |it| it.minor == 8);
        assert_eq!(names(&chosen), ["3.8"]);
        let chosen = some(found(), |it| it.minor == 9);
        assert_eq!(names(&chosen), ["3.7", "3.8"]);
    }

    #[test]
    fn the_first_ordinary_build_represents_its_version() {
        let chosen = one_per_version(vec![
            interpreter("2.7", (2, 7)),
            interpreter("3.13t", (3, 13)),
            interpreter("3.13-debug", (3, 13)),
            interpreter("3.13-trixie", (3, 13)),
            interpreter("3.13-sid", (3, 13)),
            interpreter("3.7", (3, 7)),
        ]);
        assert_eq!(names(&chosen), ["2.7", "3.13-trixie", "3.7"]);
    }
}
