//! Compiling the agent for the architecture that this machine is not.
//!
//! Invariant: what is missing is installed or an error says what to install; nothing is left out.

use std::env::consts::ARCH;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::packages;
use crate::process::{cargo, find_program, succeeds};
use crate::tools::Program;

/// An architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// What Rust calls it.
    pub architecture: &'static str,
    triple: &'static str,
    /// The C compiler that dependencies are compiled with.
    compiler: Program,
    /// The headers of its C library.
    headers: &'static str,
}

/// The architectures that the agent is written for.
const ALL: [Other; 2] = [
    Other {
        architecture: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        compiler: Program::of("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        headers: "libc6-dev-arm64-cross",
    },
    Other {
        architecture: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        compiler: Program::of("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
        headers: "libc6-dev-amd64-cross",
    },
];

/// The one that this machine is not.
#[must_use]
pub fn other() -> Other {
    let [first, second] = ALL;
    if first.architecture == ARCH {
        second
    } else {
        first
    }
}

impl Other {
    /// Installs the C compiler and Rust's standard library for it.
    ///
    /// # Errors
    ///
    /// When one is missing and cannot be installed.
    pub fn ensure(self) -> Result<()> {
        packages::install(&[self.headers])?;
        let compiler = self.compiler.ensure()?;
        println!(
            "C compiler for {}: {}",
            self.architecture,
            compiler.display()
        );
        let advice = || {
            format!(
                "the lint for {} needs Rust's standard library for it: use a toolchain of \
                 rustup's and run `rustup target add {}`",
                self.architecture, self.triple
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
        let mut clippy = cargo();
        clippy
            .args(["clippy", "--release", "--package", "agent"])
            .args(["--target", self.triple])
            .args(["--", "--deny", "warnings"])
            .env(
                format!("CC_{}", self.triple.replace('-', "_")),
                self.compiler.path(),
            );
        clippy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_architecture_is_linted_with_its_own_compiler() {
        let other = other();
        assert_ne!(other.architecture, ARCH);
        let command = other.clippy();
        let variable = format!("CC_{}_unknown_linux_gnu", other.architecture);
        let compiler = command.get_envs().find(|(name, _)| *name == &*variable);
        let expected = format!("/usr/bin/{}-linux-gnu-gcc", other.architecture);
        assert_eq!(compiler.unwrap().1.unwrap(), &*expected);
    }
}
