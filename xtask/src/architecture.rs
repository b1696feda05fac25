//! The architectures that the agent is for, and how it is built for the one that this machine does not have.
//!
//! Invariant: what is missing is installed or an error says what to install; nothing is left out.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail, ensure};

use crate::packages;
use crate::paths;
use crate::process::{at_low_priority, capture, cargo, find_program, run, succeeds};
use crate::tools::Program;

/// An architecture of Linux machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// What Rust and the kernel call it.
    pub name: &'static str,
    /// What Debian calls it.
    pub(crate) debian: &'static str,
    /// What Rust calls its Linux machines.
    triple: &'static str,
    /// The C compiler for it on a machine of another architecture.
    compiler: Program,
    /// The headers of its C library there.
    headers: &'static str,
    /// Emulates its machines.
    pub(crate) emulator: Program,
}

/// 64-bit x86.
pub const X86_64: Architecture = Architecture {
    name: "x86_64",
    debian: "amd64",
    triple: "x86_64-unknown-linux-gnu",
    compiler: Program::of("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
    headers: "libc6-dev-amd64-cross",
    emulator: Program::of("qemu-system-x86_64", "qemu-system-x86"),
};

/// 64-bit Arm.
pub const AARCH64: Architecture = Architecture {
    name: "aarch64",
    debian: "arm64",
    triple: "aarch64-unknown-linux-gnu",
    compiler: Program::of("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    headers: "libc6-dev-arm64-cross",
    emulator: Program::of("qemu-system-aarch64", "qemu-system-arm"),
};

impl Architecture {
    const ALL: [Self; 2] = [X86_64, AARCH64];

    /// This machine's.
    #[must_use]
    pub fn host() -> Self {
        let [x86_64, aarch64] = Self::ALL;
        if aarch64.name == ARCH {
            aarch64
        } else {
            x86_64
        }
    }

    /// The one that this machine does not have.
    #[must_use]
    pub fn other() -> Self {
        let [x86_64, aarch64] = Self::ALL;
        if aarch64.is_host() { x86_64 } else { aarch64 }
    }

    /// Whether it is this machine's.
    #[must_use]
    pub fn is_host(self) -> bool {
        self == Self::host()
    }

    /// The C compiler for it, with the headers of its C library, both installed if they are missing.
    ///
    /// # Errors
    ///
    /// When they cannot be installed.
    pub fn c_compiler(self) -> Result<PathBuf> {
        if self.is_host() {
            return crate::tools::GCC.ensure();
        }
        packages::install(&[self.headers])?;
        self.compiler.ensure()
    }

    /// Installs what compiles the agent for it, where this machine has another one: the C compiler and Rust's standard
    /// library.
    ///
    /// # Errors
    ///
    /// When one is missing and cannot be installed.
    pub fn ensure_compilers(self) -> Result<()> {
        let compiler = self.c_compiler()?;
        println!("C compiler for {}: {}", self.name, compiler.display());
        let advice = || {
            format!(
                "the agent for {} needs Rust's standard library for it: use a toolchain of rustup's and run `rustup \
                 target add {}`",
                self.name, self.triple
            )
        };
        let rustup = find_program("rustup").with_context(advice)?;
        let added = succeeds(Command::new(rustup).args(["target", "add", self.triple]));
        ensure!(added, advice());
        Ok(())
    }

    /// The command that lints the agent for it, all warnings being errors.
    #[must_use]
    pub fn clippy(self) -> Command {
        let mut clippy = self.cargo("clippy");
        clippy.args(["--", "--deny", "warnings"]);
        clippy
    }

    /// Builds the agent for it, where this machine has another one, and returns its path.
    ///
    /// # Errors
    ///
    /// When it cannot be built.
    pub fn build(self) -> Result<PathBuf> {
        self.ensure_compilers()?;
        run(&mut self.cargo("build"))?;
        Ok(self.agent_in(&paths::target()))
    }

    /// The same for emulated machines, beside something else: little optimized, with what processors have left, without a
    /// message, its warnings being errors, and not where the other one waits for a turn.
    ///
    /// # Errors
    ///
    /// As [`Self::build`].
    pub fn build_beside(self) -> Result<PathBuf> {
        self.ensure_compilers()?;
        let target = paths::target().join("emulated");
        let mut build = self.cargo("build");
        build
            .env("CARGO_TARGET_DIR", &target)
            .env(self.variable("RUSTFLAGS"), "-Dwarnings")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        capture(&mut at_low_priority(&build))?;
        Ok(self.agent_in(&target))
    }

    fn agent_in(self, target: &Path) -> PathBuf {
        target.join(self.triple).join("release/agent")
    }

    fn cargo(self, command: &str) -> Command {
        let mut cargo = cargo();
        let triple = self.triple.replace('-', "_");
        cargo
            .args([command, "--release", "--package", "agent"])
            .args(["--target", self.triple])
            .env(self.variable("LINKER"), self.compiler.path())
            .env(format!("CC_{triple}"), self.compiler.path())
            // It is for this machine's.
            .env_remove("AGENT_EBPF_OBJECT");
        cargo
    }

    /// The variable that stands for a setting of cargo for it.
    fn variable(self, setting: &str) -> String {
        let triple = self.triple.replace('-', "_").to_uppercase();
        format!("CARGO_TARGET_{triple}_{setting}")
    }
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|it| it.name == name) {
            Some(architecture) => Ok(architecture),
            None => bail!(
                "the architectures are {}",
                Self::ALL.map(|it| it.name).join(" and ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_architecture_is_built_with_its_own_compiler() {
        let other = Architecture::other();
        assert_ne!(other.name, ARCH);
        assert!(Architecture::host().is_host() && !other.is_host());
        let command = other.clippy();
        let value = |name: String| {
            let mut variables = command.get_envs();
            variables
                .find(|(it, _)| *it == &*name)
                .unwrap()
                .1
                .unwrap()
                .to_owned()
        };
        let expected = format!("/usr/bin/{}-linux-gnu-gcc", other.name);
        assert_eq!(
            value(format!("CC_{}_unknown_linux_gnu", other.name)),
            *expected
        );
        let linker = format!(
            "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_LINKER",
            other.name.to_uppercase()
        );
        assert_eq!(value(linker), *expected);
    }

    #[test]
    fn an_architecture_is_named_as_by_the_kernel() {
        assert_eq!("aarch64".parse::<Architecture>().unwrap(), AARCH64);
        assert_eq!(
            "arm64".parse::<Architecture>().unwrap_err().to_string(),
            "the architectures are x86_64 and aarch64"
        );
    }
}
