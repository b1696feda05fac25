//! An interpreter and its properties.
//!
//! Invariant: version and kind of build are what the program itself prints, never derived from its
//! path.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{SHELF, catalog, roots};
use crate::process::{as_root, capture};

/// The script that every interpreter runs, also Python 2. It imports what the tests' programs
/// import, to check that these modules are there.
const SCRIPT: &str = "import json, sys, threading, time
with open('/proc/self/maps') as maps:
    shared = 'libpython' in maps.read()
flags = getattr(sys, 'abiflags', '') or '-'
debug = hasattr(sys, 'gettotalrefcount')
print('%d %d %s %d %d' % (sys.version_info[:2] + (flags, debug, shared)))";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Its name: `3.12`, `3.13t`, `3.9-bullseye`.
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
        let output = capture(python.args(["-c", SCRIPT]))?;
        Self::from_output(path, &output)
            .with_context(|| format!("{} is not a Python interpreter", path.display()))
    }

    /// The root file system that the program runs in, unless that is this machine's.
    #[must_use]
    pub fn root(&self) -> Option<PathBuf> {
        roots::of(&self.path)
    }

    /// Whether it is neither a debug build nor free-threaded.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        !self.debug && !self.free_threaded
    }

    fn from_output(path: &Path, output: &str) -> Result<Self> {
        let words: Vec<_> = output.split_whitespace().collect();
        let [major, minor, flags, debug, shared] = words[..] else {
            bail!("its output is {output:?}");
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

/// The letters of `sys.abiflags` for the kind of build; `m` has no meaning in old releases.
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

    fn parsed(output: &str) -> Interpreter {
        Interpreter::from_output(Path::new("/opt/bin/python"), output).unwrap()
    }

    #[test]
    fn properties_are_read_from_the_output() {
        let interpreter = parsed("3 13 t 0 1");
        assert_eq!((interpreter.major, interpreter.minor), (3, 13));
        assert_eq!(interpreter.name, "3.13t");
        assert!(interpreter.free_threaded && !interpreter.debug);
        assert_eq!(interpreter.linkage, Linkage::Shared);
        assert!(!interpreter.is_ordinary());

        let interpreter = parsed("3 13 d 1 0");
        assert_eq!(interpreter.name, "3.13d");
        assert!(interpreter.debug && !interpreter.free_threaded);
        assert_eq!(interpreter.linkage, Linkage::Static);

        let interpreter = parsed("3 7 m 0 1");
        assert_eq!(interpreter.name, "3.7");
        assert!(interpreter.is_ordinary());
        assert_eq!(parsed("2 7 - 0 1").name, "2.7");
    }

    #[test]
    fn other_output_is_an_error() {
        for output in ["", "3 13", "three 13 - 0 0"] {
            assert!(Interpreter::from_output(Path::new("/bin/cat"), output).is_err());
        }
    }

    #[test]
    fn an_interpreter_is_printed_as_name_tab_path() {
        let interpreter = parsed("3 11 - 0 0");
        assert_eq!(interpreter.to_string(), "3.11\t/opt/bin/python");
    }
}
