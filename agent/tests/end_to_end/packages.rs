//! Packages of the Python Package Index that workloads import.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use xtask::{interpreters::Interpreter, process::capture};

/// The folder of packages, which are downloaded if it does not exist: `packages` are requirement
/// specifiers, and have all that they require.
pub(crate) fn python_packages(interpreter: &Interpreter, name: &str, packages: &[&str]) -> PathBuf {
    static DOWNLOADING: Mutex<()> = Mutex::new(());
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", interpreter.name));
    // Tests that run at the same time have the same packages.
    let _downloading = DOWNLOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if !directory.exists() {
        // Renamed when it is complete.
        let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut pip = Command::new(&interpreter.path);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .args(["--only-binary", ":all:"])
            .args(packages)
            .arg("--target")
            .arg(unfinished.path());
        capture(&mut pip).unwrap_or_else(|error| panic!("{error:#}"));
        fs::rename(unfinished.keep(), &directory).unwrap();
    }
    directory
}
