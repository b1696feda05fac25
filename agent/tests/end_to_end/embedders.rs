//! Programs that embed Python.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use xtask::{
    interpreters::{self, Interpreter},
    process::capture,
};

use super::{
    machine,
    program::{Program, assert_spun},
    target::workload_path,
};

/// Requirement specifier of the tool that bundles a program and its interpreter into one file.
const BUNDLER: &str = "pyinstaller==6.11.1";

/// A debugger that runs Python scripts.
#[test]
fn python_in_a_debugger_is_profiled() {
    let _machine = machine::alone();
    let script = workload_path("short");
    let line = ["gdb", "-nx", "-q", "-batch", "-x", script.to_str().unwrap()];
    let (_, folded) = Program(line.map(str::to_owned).to_vec()).profile(&[]);
    assert_spun(folded.iter());
}

/// The executable unpacks the interpreter into a temporary folder, and executes itself again to
/// load it from there.
#[test]
fn a_program_bundled_into_one_file_is_profiled() {
    let _machine = machine::alone();
    let interpreter = interpreters::named("3.12").unwrap();
    let program = bundled(&interpreter);
    let (status, folded) =
        Program(vec![program.to_str().unwrap().to_owned()]).profile(&["--children"]);
    assert_eq!(status.code(), Some(7));
    assert_spun(folded.iter());
}

/// The workload `short` bundled into one file, which is built if it does not exist.
fn bundled(interpreter: &Interpreter) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(BUNDLER);
    let program = directory.join("dist/short");
    if !program.exists() {
        // Renamed when it is complete.
        let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bundler = unfinished.path().join("bundler");
        let mut pip = Command::new(&interpreter.path);
        pip.args(["-m", "pip", "install", "--quiet", BUNDLER, "--target"])
            .arg(&bundler);
        capture(&mut pip).unwrap_or_else(|error| panic!("{error:#}"));
        let mut make = Command::new(&interpreter.path);
        make.current_dir(unfinished.path())
            .env("PYTHONPATH", &bundler)
            .args(["-m", "PyInstaller", "--onefile", "--log-level", "ERROR"])
            .arg(workload_path("short"));
        capture(&mut make).unwrap_or_else(|error| panic!("{error:#}"));
        fs::rename(unfinished.keep(), &directory).unwrap();
    }
    program
}
