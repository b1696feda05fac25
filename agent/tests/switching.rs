//! Stacks of libraries that switch the stack of a thread: greenlet, gevent and uvloop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use agent::testing::python::{Detector, remote};
use test_support::scenarios::Scenarios;
use xtask::interpreters;

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("data/switching.py");

/// The versions of Python to test: each saves the frames of greenlets differently.
const VERSIONS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// The packages to install.
const LIBRARIES: [&str; 3] = ["greenlet==3.5.6", "gevent==26.9.0", "uvloop==0.23.0"];

#[test]
fn the_stack_is_of_the_running_greenlet_or_coroutine() {
    let mut different = 0;
    for version in VERSIONS {
        let python = with_libraries(version);
        for library in ["greenlets", "gevent", "uvloop"] {
            let scenarios = Scenarios::of(&python, PROGRAM, [library]);
            let process = scenarios.process();
            let interpreter = Detector::default().detect(&process).unwrap();
            assert_eq!(interpreter.version.to_string(), scenarios.version);
            let (stacks, differences) =
                scenarios.settle(|| remote::threads(&process, &interpreter).unwrap());
            let frames = stacks.iter().map(|stack| stack.frames.len()).sum::<usize>();
            println!("{version} {library}: {frames} frames, {differences:?}");
            different += differences.len();
        }
    }
    assert_eq!(different, 0);
}

/// A virtual environment of this version with the libraries, created if it is missing.
fn with_libraries(version: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("switching-{version}"));
    let python = folder.join("bin/python");
    let has_libraries = Command::new(&python)
        .args(["-c", "import greenlet, gevent, uvloop"])
        .status()
        .is_ok_and(|status| status.success());
    if has_libraries {
        return python;
    }
    let interpreter = interpreters::named(version).unwrap();
    let made = Command::new(interpreter.path)
        .args(["-m", "venv", "--clear"])
        .arg(&folder)
        .status();
    assert!(made.unwrap().success());
    let installed = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(LIBRARIES)
        .status();
    assert!(installed.unwrap().success());
    python
}
