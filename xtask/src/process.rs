//! Running other programs: cargo, and programs that need root.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

pub use build_bpf::process::{capture, find_program, is_executable, line, output, run};

use crate::paths;

/// Whether `command` starts and exits with 0; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    output(command).is_ok_and(|output| output.status.success())
}

/// The cargo that runs this program, else the one in `PATH`, in the root of this checkout.
#[must_use]
pub fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(paths::workspace());
    // The outer cargo sets these for this program. The build scripts of some dependencies read them,
    // and would run again after each build that was started in another way.
    for (name, _) in env::vars_os() {
        let begins_with = |start| name.to_string_lossy().starts_with(start);
        if begins_with("CARGO_PKG_") || begins_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// The command, to be run with the time that others leave.
#[must_use]
pub fn at_low_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A command that runs `program` as root: directly, else through `sudo`, which may prompt for a
/// password unless `batch` is set.
///
/// # Errors
///
/// When this process is not root and there is no usable `sudo`.
pub fn as_root(program: impl AsRef<Path>, batch: bool) -> Result<Command> {
    let program = program.as_ref();
    if is_root() {
        return Ok(Command::new(program));
    }
    let denied = || {
        format!(
            "`{}` needs root: run this as root, or install sudo",
            program.display()
        )
    };
    let sudo = find_program("sudo").with_context(denied)?;
    if batch && !succeeds(Command::new(&sudo).args(["-n", "true"])) {
        bail!(denied());
    }
    let mut command = Command::new(sudo);
    command.arg(program);
    Ok(command)
}
