//! The table of interpreters: where each comes from.
//!
//! Invariant: a new interpreter is a new row.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::source::{Compiler, Recipe, Source};
use super::{pyenv, roots};
use crate::debian::{BOOKWORM, BULLSEYE, Release, SID, TRIXIE};
use crate::packages;
use crate::process::is_executable;

/// Every interpreter by its name; the distribution's comes last.
pub(super) const ALL: &[(&str, Origin)] = &[
    ("2.7", Origin::Pyenv(2, 7)),
    ("3.6", Origin::Pyenv(3, 6)),
    ("3.7", Origin::Pyenv(3, 7)),
    ("3.8", Origin::Pyenv(3, 8)),
    ("3.9", Origin::Pyenv(3, 9)),
    ("3.10", Origin::Pyenv(3, 10)),
    ("3.11", Origin::Pyenv(3, 11)),
    ("3.12", Origin::Pyenv(3, 12)),
    ("3.13", Origin::Pyenv(3, 13)),
    // Static, stripped, and optimized by other versions of compilers.
    ("3.9-bullseye", Origin::Debian(BULLSEYE, "python3.9")),
    ("3.13-trixie", Origin::Debian(TRIXIE, "python3.13")),
    ("3.13-sid", Origin::Debian(SID, "python3.13")),
    ("3.14-sid", Origin::Debian(SID, "python3.14")),
    ("3.15-sid", Origin::Debian(SID, "python3.15")),
    // Brings the ordinary build as well, with the debug information that is stripped off it.
    ("3.13-debug", Origin::Debian(TRIXIE, "python3.13-dbg")),
    (
        "3.13t",
        Origin::Source(Recipe {
            source: PYTHON_3_13,
            program: "python3.13t",
            compiler: Compiler::Gcc,
            arguments: &["--disable-gil"],
        }),
    ),
    (
        "3.13-musl",
        Origin::Source(Recipe {
            source: PYTHON_3_13,
            program: "python3.13",
            compiler: Compiler::Musl,
            // `configure` checks for reading gzip files, the part of zlib that needs glibc; Python
            // does not use it.
            arguments: &["ac_cv_lib_z_gzread=yes"],
        }),
    ),
    (
        "3.14-tail-call",
        Origin::Source(Recipe {
            source: PYTHON_3_14,
            program: "python3.14",
            compiler: Compiler::Clang,
            arguments: &["--with-tail-call-interp"],
        }),
    ),
    (
        "3.14t",
        Origin::Source(Recipe {
            source: PYTHON_3_14,
            program: "python3.14t",
            compiler: Compiler::Gcc,
            arguments: &["--disable-gil"],
        }),
    ),
    (DISTRIBUTION.0, Origin::Distribution(BOOKWORM, "python3.11")),
];

/// The Python of Debian 12, linked statically and built with its own compiler flags.
pub(super) const DISTRIBUTION: (&str, &str) = ("3.11-bookworm", "/usr/bin/python3.11");

const PYTHON_3_13: Source = Source {
    release: TRIXIE,
    package: "python3.13",
    pinned: None,
};

/// Pinned, because sid moves on, and its mirrors do not always have the source of its day.
const PYTHON_3_14: Source = Source {
    release: SID,
    package: "python3.14",
    pinned: Some((
        "3.14.7",
        "3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81",
    )),
};

/// Where an interpreter comes from.
pub(super) enum Origin {
    /// A build by pyenv of this major and minor version.
    Pyenv(u32, u32),
    /// The release of Debian that has the program, and the program, whose package has the same
    /// name.
    Debian(Release, &'static str),
    /// This machine's own if it runs that release of Debian; else as [`Origin::Debian`].
    Distribution(Release, &'static str),
    /// Built here.
    Source(Recipe),
}

impl Origin {
    /// The path of the program, made where it is missing.
    pub(super) fn ensure(&self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Pyenv(major, minor) => pyenv::ensure(*major, *minor),
            Self::Debian(release, program) => roots::ensure(name, *release, program),
            Self::Source(recipe) => recipe.ensure(name),
            Self::Distribution(release, program) => {
                let path = PathBuf::from(DISTRIBUTION.1);
                if !is_executable(&path) {
                    if !packages::is_available(program) {
                        return roots::ensure(name, *release, program);
                    }
                    packages::install(&[program])?;
                }
                Ok(path)
            }
        }
    }
}

/// The name of the distribution's own interpreter, if it is that.
pub(super) fn name_of(path: &Path) -> Option<String> {
    let (name, program) = DISTRIBUTION;
    (path == Path::new(program)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_interpreter_has_a_name_of_its_own_that_begins_with_its_version() {
        let names: HashSet<_> = ALL.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), ALL.len());
        for (name, origin) in ALL {
            let version = match origin {
                Origin::Pyenv(major, minor) => format!("{major}.{minor}"),
                Origin::Debian(_, program) | Origin::Distribution(_, program) => {
                    program.trim_start_matches("python").replace("-dbg", "")
                }
                Origin::Source(recipe) => recipe.program.trim_start_matches("python").to_owned(),
            };
            assert!(name.starts_with(&version), "{name} is {version}");
        }
    }

    #[test]
    fn the_distribution_comes_last() {
        assert_eq!(ALL.last().map(|(name, _)| *name), Some(DISTRIBUTION.0));
        assert_eq!(
            name_of(Path::new(DISTRIBUTION.1)).as_deref(),
            Some("3.11-bookworm")
        );
        assert_eq!(name_of(Path::new("/usr/local/bin/python3.11")), None);
    }
}
