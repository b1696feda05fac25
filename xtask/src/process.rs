//! Running other programs.
//!
//! Invariant: an error names the command line that failed, so that it can be repeated by hand.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::paths;

/// Runs `command` with the caller's output streams.
///
/// # Errors
///
/// When the command cannot be started or does not exit with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line(command));
    }
    Ok(())
}

/// Runs `command` and returns what it wrote to its standard output, without the last newline.
///
/// # Errors
///
/// When the command cannot be started or does not exit with 0; the error carries what it wrote
/// to its standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        bail!(
            "`{}` ended with {}: {}",
            line(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Runs `command` with both its output streams collected, whatever its exit status.
///
/// # Errors
///
/// When the command cannot be started.
pub fn output(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", line(command)))
}

/// Whether `command` starts and exits with 0; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    output(command).is_ok_and(|output| output.status.success())
}

/// The command as one would type it.
#[must_use]
pub fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy()),
    );
    words.join(" ")
}

/// The program `name` in `PATH`, or in the directories that `PATH` lacks for ordinary users.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

/// Whether `path` is a file that somebody may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

/// The cargo that runs this program, else the one in `PATH`, in the root of this checkout.
#[must_use]
pub fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(paths::workspace());
    // What it tells the programs that it runs, as this one is. Some dependencies look at it when
    // they are built, and would be built again for everybody who asks in another way.
    for (name, _) in env::vars_os() {
        let is_told = |start| name.to_string_lossy().starts_with(start);
        if is_told("CARGO_PKG_") || is_told("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A command that runs `program` as root: directly, else through `sudo`, which may ask for a
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
    let denied = || format!("`{}` needs root: run it as root", program.display());
    let sudo = find_program("sudo").with_context(denied)?;
    if batch && !succeeds(Command::new(&sudo).args(["-n", "true"])) {
        bail!(denied());
    }
    let mut command = Command::new(sudo);
    command.arg(program);
    Ok(command)
}
