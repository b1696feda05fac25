//! Programs of the distribution's packages.
//!
//! Invariant: each is the file that its package installs, also where `PATH` has another of its
//! name before it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::architecture::{AARCH64, X86_64};
use crate::packages;
use crate::process::is_executable;

/// Where packages install programs.
const DIRECTORY: &str = "/usr/bin";

/// Maps addresses to lines, as the symbolizer does.
pub const ADDR2LINE: Program = Program::of("addr2line", "binutils");
/// The user space of emulated machines.
pub const BUSYBOX: Program = Program::of("busybox", "busybox-static");
/// The other C compiler, and the only one for interpreters with tail calls.
pub const CLANG: Program = Program::of("clang-22", "clang-22");
/// Packs the file system of emulated machines.
pub const CPIO: Program = Program::of("cpio", "cpio");
/// Compiles what is profiled.
pub const GCC: Program = Program::of("gcc", "gcc");
/// Unwinds stacks, as the agent does, and embeds Python.
pub const GDB: Program = Program::of("gdb", "gdb");
/// Compiles what is profiled.
pub const GXX: Program = Program::of("g++", "g++");
/// Lists symbols.
pub const NM: Program = Program::of("nm", "binutils");
/// Strips and compresses what is profiled.
pub const OBJCOPY: Program = Program::of("objcopy", "binutils");
/// Disassembles.
pub const OBJDUMP: Program = Program::of("objdump", "binutils");
/// A client of a cluster's API server.
pub(crate) const KUBECTL: Program = Program::of("kubectl", "kubernetes-client");
/// Makes a cluster's certificates.
pub(crate) const OPENSSL: Program = Program::of("openssl", "openssl");
/// Decodes unwind tables.
pub const READELF: Program = Program::of("readelf", "binutils");
/// Strips what is profiled.
pub const STRIP: Program = Program::of("strip", "binutils");
/// Extracts archives of Go's modules.
pub(crate) const UNZIP: Program = Program::of("unzip", "unzip");
/// Compresses symbols that are embedded in a file.
pub const XZ: Program = Program::of("xz", "xz-utils");

/// Those that tests start themselves.
const ALL: [Program; 15] = [
    ADDR2LINE,
    BUSYBOX,
    CLANG,
    CPIO,
    GCC,
    GDB,
    GXX,
    NM,
    OBJCOPY,
    OBJDUMP,
    READELF,
    STRIP,
    XZ,
    X86_64.emulator,
    AARCH64.emulator,
];

/// A program of a package of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    name: &'static str,
    package: &'static str,
}

impl Program {
    pub(crate) const fn of(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Where its package installs it.
    #[must_use]
    pub fn path(self) -> PathBuf {
        [DIRECTORY, self.name].iter().collect()
    }

    /// A command that runs it.
    #[must_use]
    pub fn command(self) -> Command {
        Command::new(self.path())
    }

    /// Its path, once its package is installed.
    ///
    /// # Errors
    ///
    /// When the package cannot be installed, or does not have it.
    pub fn ensure(self) -> Result<PathBuf> {
        if !is_executable(&self.path()) {
            packages::install(&[self.package])?;
        }
        self.found()
    }

    fn found(self) -> Result<PathBuf> {
        let Self { name, package } = self;
        let path = self.path();
        ensure!(
            is_executable(&path),
            "the tests need {}: install the package {package}, which has {name}",
            path.display()
        );
        Ok(path)
    }
}

/// Installs the packages that are missing; gives the programs with their paths.
pub(super) fn ensure_all() -> Result<Vec<(&'static str, PathBuf)>> {
    let missing = ALL.iter().filter(|program| !is_executable(&program.path()));
    let mut missing: Vec<_> = missing.map(|program| program.package).collect();
    missing.sort_unstable();
    missing.dedup();
    packages::install(&missing)?;
    ALL.iter()
        .map(|program| Ok((program.name, program.found()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_that_of_its_package() {
        assert_eq!(GXX.path(), PathBuf::from("/usr/bin/g++"));
        assert_eq!(GXX.command().get_program(), "/usr/bin/g++");
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let missing = Program::of("no-such-program", "no-such-package");
        assert_eq!(
            missing.found().unwrap_err().to_string(),
            "the tests need /usr/bin/no-such-program: install the package no-such-package, which \
             has no-such-program"
        );
    }
}
