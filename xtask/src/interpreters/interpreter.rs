//! An interpreter and what is to be known of it.
//!
//! Invariant: version and traits are what the program itself says, so that a name never promises
//! what is not there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{SHELF, catalog, roots};
use crate::process::{as_root, capture};

/// What every interpreter is asked, in words that Python 2 understands. It imports what the
/// tests' programs import everywhere, as the proof that the interpreter is whole.
const QUESTION: &str = "import json, sys, threading, time
with open('/proc/self/maps') as maps:
    shared = 'libpython' in maps.read()
flags = getattr(sys, 'abiflags', '') or '-'
debug = hasattr(sys, 'gettotalrefcount')
print('%d %d %s %d %d' % (sys.version_info[:2] + (flags, debug, shared)))";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// What it is called: `3.12`, `3.13t`, `3.9-bullseye`.
    pub name: String,
    /// 3 for Python 3.11.
    pub major: u32,
    /// 11 for Python 3.11.
    pub minor: u32,
    /// The program; it may be a script that replaces itself by the program.
    pub path: PathBuf,
    /// Whether it has no global interpreter lock.
    pub free_threaded: bool,
    /// Whether it is a debug build, whose objects are larger.
    pub debug: bool,
    /// Where its code is.
    pub linkage: Linkage,
}

/// Which file of a process holds the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// The program.
    Static,
    /// The library `libpython`.
    Shared,
}

impl Interpreter {
    /// The interpreter at this path, which is run to see what it is.
    ///
    /// # Errors
    ///
    /// When it does not run or is no Python interpreter.
    pub fn at(path: &Path) -> Result<Self> {
        let mut python = if roots::contains(path) {
            as_root(path, false)?
        } else {
            Command::new(path)
        };
        let answer = capture(python.args(["-c", QUESTION]))?;
        Self::from_answer(path, &answer)
            .with_context(|| format!("{} is no Python interpreter", path.display()))
    }

    /// The root file system that the program runs in, unless that is this machine's.
    #[must_use]
    pub fn root(&self) -> Option<PathBuf> {
        roots::of(&self.path)
    }

    /// Whether it is a build as people run it: neither for debugging nor free-threaded.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        !self.debug && !self.free_threaded
    }

    fn from_answer(path: &Path, answer: &str) -> Result<Self> {
        let words: Vec<_> = answer.split_whitespace().collect();
        let [major, minor, flags, debug, shared] = words[..] else {
            bail!("it answers {answer:?}");
        };
        let (major, minor) = (major.parse()?, minor.parse()?);
        let name = SHELF
            .name_of(path)
            .or_else(|| catalog::name_of(path))
            .unwrap_or_else(|| format!("{major}.{minor}{}", suffix(flags)));
        Ok(Self {
            name,
            major,
            minor,
            path: path.to_owned(),
            free_threaded: flags.contains('t'),
            debug: debug == "1",
            linkage: if shared == "1" {
                Linkage::Shared
            } else {
                Linkage::Static
            },
        })
    }
}

/// What `sys.abiflags` says of the kind of build; `m`, which old releases all have, says nothing.
fn suffix(flags: &str) -> String {
    flags.chars().filter(|flag| "dt".contains(*flag)).collect()
}

impl fmt::Display for Interpreter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\t{}", self.name, self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(answer: &str) -> Interpreter {
        Interpreter::from_answer(Path::new("/opt/bin/python"), answer).unwrap()
    }

    #[test]
    fn an_interpreter_is_what_it_says() {
        let interpreter = understood("3 13 t 0 1");
        assert_eq!((interpreter.major, interpreter.minor), (3, 13));
        assert_eq!(interpreter.name, "3.13t");
        assert!(interpreter.free_threaded && !interpreter.debug);
        assert_eq!(interpreter.linkage, Linkage::Shared);
        assert!(!interpreter.is_ordinary());

        let interpreter = understood("3 13 d 1 0");
        assert_eq!(interpreter.name, "3.13d");
        assert!(interpreter.debug && !interpreter.free_threaded);
        assert_eq!(interpreter.linkage, Linkage::Static);

        let interpreter = understood("3 7 m 0 1");
        assert_eq!(interpreter.name, "3.7");
        assert!(interpreter.is_ordinary());
        assert_eq!(understood("2 7 - 0 1").name, "2.7");
    }

    #[test]
    fn what_answers_otherwise_is_none() {
        for answer in ["", "3 13", "three 13 - 0 0"] {
            assert!(Interpreter::from_answer(Path::new("/bin/cat"), answer).is_err());
        }
    }

    #[test]
    fn an_interpreter_is_printed_as_name_tab_path() {
        let interpreter = understood("3 11 - 0 0");
        assert_eq!(interpreter.to_string(), "3.11\t/opt/bin/python");
    }
}
