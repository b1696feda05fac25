//! Programs that are made to be hard to unwind.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::compare::Comparison;
use crate::debugger::Debugger;

/// Instructions that are run one by one after each stop.
const STEPS: usize = 30;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/native")
        .join(name)
}

/// Makes a program.
fn compile(compiler: &str, name: &str, options: &str, directory: &Path) -> PathBuf {
    let program = directory.join("program");
    let mut command = Command::new(compiler);
    command
        .args(options.split_whitespace())
        .arg("-o")
        .arg(&program)
        .arg(source(name));
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
    program
}

/// Compares at all stops of a program, and at each of the instructions that follow.
fn run(comparison: &mut Comparison, name: &str, program: &Path) {
    let mut gdb = Debugger::of(program);
    let mut stop = gdb.stop(&["run < /dev/null > /dev/null"]);
    let mut stops = 0;
    while let Some(here) = stop {
        stops += 1;
        comparison.compare(name, &here);
        for _ in 0..STEPS {
            let Some(here) = gdb.stop(&["stepi"]) else {
                return;
            };
            comparison.compare(name, &here);
        }
        stop = gdb.stop(&["continue"]);
    }
    println!("{name}: {stops} stops");
}

#[test]
fn calls_of_all_kinds() {
    let mut comparison = Comparison::default();
    for optimization in ["-O0", "-O1", "-O2", "-O3"] {
        let directory = TempDir::new().unwrap();
        let options = format!("{optimization} -w");
        let program = compile("gcc", "calls.c", &options, directory.path());
        run(&mut comparison, &options, &program);
    }
    comparison.finish("calls.c");
}
