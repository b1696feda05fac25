//! Builds of CPython that no distribution has, from Debian's source packages.
//!
//! Invariants: sources are verified as Debian does it, or by a hash that is pinned here. A build
//! is for being profiled, not for use: little optimized, all modules in the program, and with few that need
//! libraries, so that it takes a minute or two and is the same on every machine.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};

use super::SHELF;
use crate::cache::{Site, has_other_hash};
use crate::debian::{self, Apt, Release};
use crate::packages;
use crate::tools::{CLANG, GCC};

/// What every build needs.
const BUILD_PACKAGES: [&str; 7] = [
    "dpkg-dev",
    "gcc",
    "libc6-dev",
    "libffi-dev",
    "make",
    "xz-utils",
    "zlib1g-dev",
];

/// Options of all builds. Optimizing no further saves a third of the time, and debug information, which pyenv's
/// builds have, another; musl's static library has its own, which is left out too.
const OPTIONS: [&str; 6] = [
    "--disable-test-modules",
    "--without-ensurepip",
    "MODULE_BUILDTYPE=static",
    "OPT=-O1 -DNDEBUG",
    "LDFLAGS=-Wl,--strip-debug",
    "PKG_CONFIG=/bin/false",
];

/// Modules that would be there or not, as this machine has their libraries, or that take long to
/// compile.
const LEFT_OUT: [&str; 22] = [
    "_bz2",
    "_codecs_cn",
    "_codecs_hk",
    "_codecs_iso2022",
    "_codecs_jp",
    "_codecs_kr",
    "_codecs_tw",
    "_curses",
    "_curses_panel",
    "_dbm",
    "_decimal",
    "_elementtree",
    "_gdbm",
    "_hashlib",
    "_lzma",
    "_sqlite3",
    "_ssl",
    "_tkinter",
    "_uuid",
    "_zstd",
    "pyexpat",
    "readline",
];

/// A source package of Debian's.
pub(super) struct Source {
    /// The release that has it.
    pub(super) release: Release,
    /// What it is called.
    pub(super) package: &'static str,
    /// The upstream version to take and the SHA-256 of its archive, as long as the mirror has
    /// it; else what the release has now.
    pub(super) pinned: Option<(&'static str, &'static str)>,
}

/// With what a build is compiled, and against which C library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compiler {
    /// GCC, against glibc.
    Gcc,
    /// Clang, against glibc.
    Clang,
    /// GCC, against musl.
    Musl,
}

/// How an interpreter is built.
pub(super) struct Recipe {
    pub(super) source: Source,
    /// What the program is called, which is also what it calls the directory of its modules.
    pub(super) program: &'static str,
    pub(super) compiler: Compiler,
    /// What `configure` is told.
    pub(super) arguments: &'static [&'static str],
}

impl Recipe {
    /// The path of the program, built if it is not there.
    pub(super) fn ensure(&self, name: &str) -> Result<PathBuf> {
        let directory = SHELF.ensure(name, |site| self.build(site))?;
        Ok(directory.join("bin").join(self.program))
    }

    fn build(&self, site: &Site) -> Result<()> {
        packages::install(&BUILD_PACKAGES)?;
        let compiler = self.compiler.ensure(&site.scratch)?;
        let source = self.source.fetch(site)?;
        site.run(
            Command::new(source.join("configure"))
                .current_dir(&source)
                .arg(format!("CC={}", compiler.display()))
                .arg(format!("--prefix={}", site.finished.display()))
                .args(OPTIONS)
                .args(LEFT_OUT.map(|module| format!("py_cv_module_{module}=n/a")))
                .args(self.arguments),
        )?;
        let jobs = thread::available_parallelism()?;
        site.run(
            Command::new("make")
                .current_dir(&source)
                .arg(format!("--jobs={jobs}")),
        )?;
        self.install(site, &source)
    }

    /// Copies what runs. CPython's own installation would compile all modules, three times.
    fn install(&self, site: &Site, source: &Path) -> Result<()> {
        let programs = site.unfinished.join("bin");
        fs::create_dir(&programs)?;
        fs::copy(source.join("python"), programs.join(self.program))?;
        let modules = site.unfinished.join("lib").join(self.program);
        // Its absence would be complained about.
        fs::create_dir_all(modules.join("lib-dynload"))?;
        let written = fs::read_to_string(source.join("pybuilddir.txt"))?;
        for directory in [source.join("Lib"), source.join(written.trim())] {
            site.run(
                Command::new("cp")
                    .arg("--recursive")
                    .arg(directory.join("."))
                    .arg(&modules),
            )?;
        }
        fs::remove_dir_all(modules.join("test")).context("there are no tests to leave out")
    }
}

impl Source {
    /// Its files, in a directory below `site.scratch`.
    fn fetch(&self, site: &Site) -> Result<PathBuf> {
        let directory = site.scratch.join("source");
        if let Some((version, sha256)) = self.pinned {
            if self.fetch_pinned(site, version, sha256, &directory)? {
                return Ok(directory);
            }
            let Self {
                package, release, ..
            } = self;
            println!(
                "warning: the archive no longer has {package} {version}; building the current \
                 version of {release}"
            );
        }
        self.fetch_current(site, &directory)?;
        Ok(directory)
    }

    /// Extracts the pinned version, and returns whether the archive still has it. A file with
    /// another hash is an error.
    fn fetch_pinned(
        &self,
        site: &Site,
        version: &str,
        sha256: &str,
        directory: &Path,
    ) -> Result<bool> {
        let archive = site.scratch.join("source.tar.xz");
        let address = self.address(version);
        if site.download(&address, sha256, &archive).is_err() {
            ensure!(
                !has_other_hash(&archive),
                "{address} does not have the pinned SHA-256 {sha256}"
            );
            return Ok(false);
        }
        fs::create_dir(directory)?;
        site.extract(&archive, directory)?;
        Ok(true)
    }

    /// Extracts the current version of the release.
    fn fetch_current(&self, site: &Site, directory: &Path) -> Result<()> {
        Apt::update(site, self.release)?.download_source(site, self.package, &site.scratch)?;
        let description = fs::read_dir(&site.scratch)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|file| file.extension().is_some_and(|extension| extension == "dsc"))
            .context("the source package has no description")?;
        site.run(
            Command::new("dpkg-source")
                // Debian moves directories around for its own packages.
                .args(["--skip-patches", "--extract"])
                .arg(description)
                .arg(directory),
        )
    }

    fn address(&self, version: &str) -> String {
        let Self { package, .. } = self;
        format!(
            "{}/pool/main/p/{package}/{package}_{version}.orig.tar.xz",
            debian::MIRROR
        )
    }
}

impl Compiler {
    /// The program, installed if it is not there; a wrapper is written to `directory`.
    fn ensure(self, directory: &Path) -> Result<PathBuf> {
        match self {
            Self::Gcc => GCC.ensure(),
            Self::Clang => CLANG.ensure(),
            Self::Musl => {
                packages::install(&["musl-tools"])?;
                wrap_musl(directory)
            }
        }
    }
}

/// Writes the compiler for musl that CPython can be built with.
fn wrap_musl(directory: &Path) -> Result<PathBuf> {
    let architecture = format!("{}-linux-gnu", env::consts::ARCH);
    for (directory, from, names) in [
        (
            directory.join("headers"),
            Path::new("/usr/include"),
            &[
                "linux",
                "asm-generic",
                "asm",
                "ffi.h",
                "ffitarget.h",
                "zconf.h",
                "zlib.h",
            ][..],
        ),
        (
            directory.join("libraries"),
            Path::new("/usr/lib"),
            &["libffi.a", "libz.a"],
        ),
    ] {
        fs::create_dir(&directory)?;
        for name in names {
            let own = from.join(&architecture).join(name);
            let file = if own.exists() { own } else { from.join(name) };
            symlink(file, directory.join(name))?;
        }
    }
    let wrapper = directory.join("musl-cc");
    fs::write(&wrapper, include_str!("../../interpreters/musl-cc"))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    Ok(wrapper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::SID;
    use crate::process::capture;

    #[test]
    fn the_archive_of_a_version_is_in_the_pool() {
        let source = Source {
            release: SID,
            package: "python3.14",
            pinned: None,
        };
        assert_eq!(
            source.address("3.14.7"),
            "http://deb.debian.org/debian/pool/main/p/python3.14/python3.14_3.14.7.orig.tar.xz"
        );
    }

    #[test]
    fn the_wrapper_of_musl_says_for_which_library_it_compiles() {
        let directory = tempfile::tempdir().unwrap();
        let wrapper = wrap_musl(directory.path()).unwrap();
        let answer = capture(Command::new(wrapper).arg("--print-multiarch")).unwrap();
        assert_eq!(answer, format!("{}-linux-musl", env::consts::ARCH));
    }
}
