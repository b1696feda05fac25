//! Subcommands of cargo that make the package and examine what the agent is built from.
//!
//! Invariant: each is built once per machine, in the cache directory, from the pinned version with the
//! versions of its own lock file, and is only used when it starts and prints the pinned version.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::paths;
use crate::process::{capture, cargo, run};

/// Makes packages for Debian.
pub(crate) const CARGO_DEB: CargoTool = CargoTool::of("cargo-deb", "3.8.0");
/// Lists what the agent is built from.
pub(crate) const CARGO_CYCLONEDX: CargoTool = CargoTool::of("cargo-cyclonedx", "0.5.9");
/// Checks licenses and sources of dependencies.
pub const CARGO_DENY: CargoTool = CargoTool::of("cargo-deny", "0.20.2");

/// A pinned subcommand of cargo.
#[derive(Clone, Copy, Debug)]
pub struct CargoTool {
    name: &'static str,
    version: &'static str,
}

impl CargoTool {
    const fn of(name: &'static str, version: &'static str) -> Self {
        Self { name, version }
    }

    /// A command that runs it in the root of this checkout, with the cargo that runs this program.
    ///
    /// # Errors
    ///
    /// When it is not there and cannot be built.
    pub fn command(self) -> Result<Command> {
        let mut command = Command::new(self.ensure()?);
        command
            .current_dir(paths::workspace())
            .env("CARGO", cargo().get_program());
        Ok(command)
    }

    fn ensure(self) -> Result<PathBuf> {
        let Self { name, version } = self;
        let root = paths::cache()?.join(format!("{name}-{version}"));
        let tool = root.join("bin").join(name);
        if !self.is_usable(&tool) {
            println!("building {name} {version}, once on this machine");
            let mut install = cargo();
            install
                .args(["install", name, "--version", version, "--locked"])
                .args(["--force", "--quiet", "--root"])
                .arg(&root);
            for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS"] {
                install.env_remove(name);
            }
            // It runs for seconds, and is built in half of the time.
            for (name, value) in [("OPT_LEVEL", "1"), ("LTO", "off"), ("CODEGEN_UNITS", "2")] {
                install.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
            }
            run(&mut install)?;
        }
        Ok(tool)
    }

    /// Whether it starts and prints its version. Some print it only as subcommands of cargo.
    fn is_usable(self, tool: &PathBuf) -> bool {
        let subcommand = self.name.trim_start_matches("cargo-");
        [&["--version"][..], &[subcommand, "--version"]]
            .iter()
            .any(|arguments| {
                let answer = capture(Command::new(tool).args(*arguments));
                answer.is_ok_and(|answer| answer.contains(self.version))
            })
    }
}
