//! Programs that embed Python.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use xtask::{interpreters, process::capture};

use super::{
    folded::names,
    machine,
    program::{Program, assert_spun},
    target::workload_path,
};

/// Requirement specifier of the tool that bundles a program and its interpreter into one file.
const BUNDLER: &str = "pyinstaller==6.11.1";

/// The same of the compiler of Python to machine code.
const COMPILER: &str = "nuitka==4.3.3";

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
    let program = made(BUNDLER, "dist/short", |make| {
        make.args(["-m", "PyInstaller", "--onefile", "--log-level", "ERROR"])
    });
    let (status, folded) =
        Program(vec![program.to_str().unwrap().to_owned()]).profile(&["--children"]);
    assert_eq!(status.code(), Some(7));
    assert_spun(folded.iter());
}

/// The executable has the interpreter, whose evaluation loop runs nothing of the program: that is machine code, which
/// makes frames.
#[test]
fn a_program_that_was_compiled_is_profiled() {
    let _machine = machine::alone();
    let program = made(COMPILER, "short.bin", |make| {
        make.args(["-m", "nuitka", "--quiet", "--assume-yes-for-downloads"])
    });
    let (status, folded) = Program(vec![program.to_str().unwrap().to_owned()]).profile(&[]);
    assert_eq!(status.code(), Some(7));
    assert_spun(folded.iter());
    let spun = folded
        .iter()
        .filter(|(stack, _)| names(stack).contains(&"spin"));
    for (stack, _) in spun {
        assert_eq!(names(stack)[0], "<module>", "{stack:?}");
    }
}

/// What a tool makes of the workload `short`, which is made if it does not exist: the file at `path` in a folder.
fn made(tool: &str, path: &str, arguments: impl Fn(&mut Command) -> &mut Command) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(tool);
    let program = directory.join(path);
    if !program.exists() {
        let interpreter = interpreters::named("3.12").unwrap();
        // Renamed when it is complete.
        let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let packages = unfinished.path().join("packages");
        let mut pip = Command::new(&interpreter.path);
        pip.args(["-m", "pip", "install", "--quiet", tool, "--target"])
            .arg(&packages);
        capture(&mut pip).unwrap_or_else(|error| panic!("{error:#}"));
        let mut make = Command::new(&interpreter.path);
        make.current_dir(unfinished.path())
            .env("PYTHONPATH", &packages);
        arguments(&mut make).arg(workload_path("short"));
        capture(&mut make).unwrap_or_else(|error| panic!("{error:#}"));
        fs::rename(unfinished.keep(), &directory).unwrap();
    }
    program
}
