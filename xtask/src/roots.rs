//! Root file systems of Debian releases, for interpreters that this machine does not have.
//!
//! Invariants: a root is made once per machine, in the cache, and only ever seen whole. Its
//! programs need its own C library, so they run with it as their root directory, as in a
//! container; the caller's working directory, `/tmp` and the kernel's file systems are shared.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::packages;
use crate::paths;
use crate::process::{as_root, find_program, is_executable, run};

/// The path of a program on this machine that runs `program` of the Debian release `suite` in
/// that release's root file system, if that has been made. It replaces itself, so it keeps its
/// process ID.
#[must_use]
pub fn find(suite: &str, program: &str) -> Option<PathBuf> {
    let wrapper = wrapper(&directory().ok()?, suite, program);
    is_executable(&wrapper).then_some(wrapper)
}

/// Whether `path` is such a program, which is of another file system than this machine's.
#[must_use]
pub fn contains(path: &Path) -> bool {
    directory().is_ok_and(|directory| path.starts_with(directory))
}

/// Makes what [`find`] finds; `program` is also the name of its package.
///
/// # Errors
///
/// When the root file system cannot be made.
pub fn make(suite: &str, program: &str) -> Result<PathBuf> {
    println!("making a root file system of Debian {suite} for {program}");
    let roots = directory()?;
    fs::create_dir_all(&roots).with_context(|| format!("cannot make {}", roots.display()))?;
    let root = roots.join(suite);
    bootstrap(suite, program, &root)?;
    // Last, as the proof that all is there.
    let wrapper = wrapper(&roots, suite, program);
    fs::write(&wrapper, script(&root, program))
        .and_then(|()| fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", wrapper.display()))?;
    Ok(wrapper)
}

fn directory() -> Result<PathBuf> {
    Ok(paths::cache()?.join("roots"))
}

fn wrapper(roots: &Path, suite: &str, program: &str) -> PathBuf {
    roots.join(format!("{program}-{suite}"))
}

fn bootstrap(suite: &str, package: &str, root: &Path) -> Result<()> {
    if find_program("debootstrap").is_none() {
        packages::install(&["debootstrap"])?;
    }
    let debootstrap = find_program("debootstrap").context("install debootstrap")?;
    let unfinished = root.with_extension("unfinished");
    run(as_root("/bin/rm", false)?
        .args(["-rf", "--one-file-system"])
        .arg(&unfinished)
        .arg(root))?;
    let log = File::create(root.with_extension("log"))?;
    run(as_root(debootstrap, false)?
        .args(["--variant=minbase", "--include", package, suite])
        .arg(&unfinished)
        .stdout(log))
    .with_context(|| format!("see {}", root.with_extension("log").display()))?;
    run(as_root("/bin/mv", false)?.arg(&unfinished).arg(root))
}

fn script(root: &Path, program: &str) -> String {
    format!(
        r#"#!/bin/sh
# Runs {program} with {root} as its root directory.
ROOT='{root}' exec unshare --mount --propagation private sh -c '
set -e
for directory in /proc /sys /dev /tmp "$PWD"; do
    mkdir -p "$ROOT$directory"
    mount --rbind "$directory" "$ROOT$directory"
done
exec chroot "$ROOT" /usr/bin/env -u ROOT -C "$PWD" {program} "$@"' sh "$@"
"#,
        root = root.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_wrapper_names_the_root_and_is_a_shell_script() {
        let script = script(Path::new("/cache/roots/trixie"), "python3.13");
        assert!(script.starts_with("#!/bin/sh\n"));
        let parses = Command::new("sh").args(["-n", "-c", &script]).status();
        assert!(parses.unwrap().success());
        assert!(script.contains("ROOT='/cache/roots/trixie'"));
    }
}
