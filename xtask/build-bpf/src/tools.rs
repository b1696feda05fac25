//! The tools that build and lint `agent-ebpf` for the BPF target.
//!
//! Invariants: the inner cargo gets nothing of an outer cargo's toolchain, flags or target
//! directory, only the user's settings of network, registries and terminal; tools are called by
//! absolute path.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::linker::{self, Linker};
use crate::paths;
use crate::process;
use crate::toolchain::{self, Toolchain};

/// The target of BPF programs on little-endian machines, the only ones supported.
const TARGET: &str = "bpfel-unknown-none";

/// What is built, and how.
const SELECTION: [&str; 7] = [
    "--release",
    "--package=agent-ebpf",
    "--bin=agent",
    "--target",
    TARGET,
    "-Z",
    "build-std=core",
];

/// What builds the BPF programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// The compiler.
    pub toolchain: Toolchain,
    /// The linker, built with an LLVM that is not older than the compiler's.
    pub linker: Linker,
}

/// The built BPF programs.
#[derive(Debug)]
pub struct BpfObject {
    /// The object to load into the kernel.
    pub path: PathBuf,
    /// The warnings of the compiler, or nothing.
    pub warnings: String,
}

impl Tools {
    /// Finds the tools that `cargo xtask setup` has installed on this machine.
    ///
    /// # Errors
    ///
    /// When there is no toolchain with a linker that reads its bitcode.
    pub fn discover() -> Result<Self> {
        Self::among(&toolchain::find_all(), &linker::find_all()?)
    }

    fn among(toolchains: &[Toolchain], linkers: &[Linker]) -> Result<Self> {
        let Some((toolchain, linker)) = linker::choose(toolchains, linkers) else {
            bail!(
                "the BPF programs need a Rust toolchain with rust-src and bpf-linker {}: \
                 run `cargo xtask setup` once on this machine",
                linker::VERSION
            );
        };
        Ok(Self {
            toolchain: toolchain.clone(),
            linker: linker.clone(),
        })
    }

    /// Builds the BPF programs below `target_directory` for machines of `architecture`
    /// (`x86_64`, `aarch64`).
    ///
    /// # Errors
    ///
    /// With the compiler's output when it fails.
    pub fn build(&self, architecture: &str, target_directory: &Path) -> Result<BpfObject> {
        let mut cargo = self.cargo("cargo", architecture, target_directory);
        cargo.args(["build", "--quiet"]).args(SELECTION);
        let output = process::output(&mut cargo)?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("the BPF programs do not build:\n{messages}");
        }
        Ok(BpfObject {
            path: target_directory.join(TARGET).join("release/agent"),
            warnings: messages,
        })
    }

    /// The command that lints the BPF programs; warnings are errors.
    #[must_use]
    pub fn clippy(&self, architecture: &str, target_directory: &Path) -> Command {
        let mut clippy = self.cargo("cargo-clippy", architecture, target_directory);
        clippy
            .arg("clippy")
            .args(SELECTION)
            .args(["--", "--deny", "warnings"]);
        clippy
    }

    /// One of the toolchain's cargo programs, set up for the BPF target.
    fn cargo(&self, program: &str, architecture: &str, target_directory: &Path) -> Command {
        let mut command = Command::new(self.toolchain.program(program));
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_of_outer_cargo) {
                command.env_remove(name);
            }
        }
        let flags = [
            format!("--cfg=bpf_target_arch=\"{architecture}\""),
            "-Cdebuginfo=2".to_owned(),
            "-Clink-arg=--btf".to_owned(),
            format!("-Clinker={}", self.linker.path.display()),
        ];
        command
            .current_dir(paths::workspace())
            .env("CARGO", self.toolchain.program("cargo"))
            .env("RUSTC", self.toolchain.program("rustc"))
            // Lets a stable compiler build `core` and use what a BPF program needs of it.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", target_directory)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        command
    }
}

/// Whether a variable is set by an outer cargo or is meant for the build of the host's programs.
fn is_of_outer_cargo(name: &str) -> bool {
    const KEPT: [&str; 6] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_TERM_",
    ];
    const OTHERS: [&str; 9] = [
        "CARGO",
        "CLIPPY_ARGS",
        // Cargo points it at the outer toolchain's own libraries.
        "LD_LIBRARY_PATH",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
    ];
    OTHERS.contains(&name)
        || name.starts_with("CARGO_") && !KEPT.iter().any(|kept| name.starts_with(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tools_the_error_says_what_to_run() {
        let error = Tools::among(&[], &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the BPF programs need a Rust toolchain with rust-src and bpf-linker 0.13.0: \
             run `cargo xtask setup` once on this machine"
        );
    }

    #[test]
    fn only_the_users_own_settings_reach_the_inner_cargo() {
        for name in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_MANIFEST_DIR",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_TARGET_DIR",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
        ] {
            assert!(is_of_outer_cargo(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_MINE_INDEX",
            "CARGO_TERM_COLOR",
            "HOME",
            "PATH",
        ] {
            assert!(!is_of_outer_cargo(name), "{name}");
        }
    }
}
