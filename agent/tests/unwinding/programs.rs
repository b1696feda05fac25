//! Programs that are hard to unwind.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use test_support::debugger::Debugger;
use xtask::tools;

use super::compare::Comparison;

/// Instructions that are run one by one after each stop.
const STEPS: usize = 20;

/// Optimization levels.
const OPTIMIZATIONS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];

/// A program and the options that every variant of it is compiled with.
struct Program {
    compiler: fn() -> PathBuf,
    source: &'static str,
    options: &'static str,
}

impl Program {
    /// Compiles a variant.
    fn compile(&self, options: &str, directory: &Path) -> PathBuf {
        let program = directory.join("program");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/native");
        let mut command = Command::new((self.compiler)());
        command
            .args(self.options.split_whitespace())
            .args(options.split_whitespace())
            .arg("-o")
            .arg(&program)
            .arg(sources.join(self.source));
        let output = command.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {messages}");
        program
    }

    /// Compares at stops of the program, compiled with these further options, and each of the times
    /// that `follow` is run then, until it ends or has stopped `most` times.
    fn compare(
        &self,
        comparison: &mut Comparison,
        options: &str,
        most: usize,
        follow: &str,
        times: usize,
    ) {
        let compiler = (self.compiler)();
        let name = format!("{} {} {options}", compiler.display(), self.source);
        let directory = TempDir::new().unwrap();
        let program = self.compile(options, directory.path());
        let mut gdb = Debugger::of(&program);
        let mut next = "run < /dev/null > /dev/null 2> /dev/null";
        let mut stops = 0;
        'runs: for _ in 0..most {
            for nth in 0..=times {
                let command = if nth == 0 { next } else { follow };
                let Some(stop) = gdb.stop(&[command]) else {
                    break 'runs;
                };
                comparison.compare(&name, &stop);
                stops += 1;
            }
            next = "continue";
        }
        println!("{name}: {stops} stops");
    }
}

#[test]
fn calls_of_c() {
    let program = Program {
        compiler: || tools::GCC.path(),
        source: "calls.c",
        options: "-w -pthread",
    };
    let mut comparison = Comparison::default();
    let variants = OPTIMIZATIONS.map(str::to_owned).into_iter().chain(
        [
            "-O0 -s",
            "-O2 -s -fno-omit-frame-pointer",
            "-O2 -fcf-protection=full -Wl,-z,ibtplt",
            "-O2 -g -no-pie -Wl,-z,now",
            "-O1 -static",
            "-O2 -s -static",
            "-O3 -s -static-pie",
            "-O2 -mavx2 -mstackrealign -flto",
            "-O2 -fstack-protector-all -fstack-clash-protection",
            "-O2 -mno-red-zone -mno-push-args -maccumulate-outgoing-args",
        ]
        .map(str::to_owned),
    );
    for options in variants {
        program.compare(&mut comparison, &options, usize::MAX, "stepi", STEPS);
    }
    comparison.finish(program.source);
}

#[test]
fn calls_of_c_by_another_compiler() {
    let program = Program {
        compiler: || tools::CLANG.path(),
        source: "calls.c",
        options: "-w -pthread",
    };
    let mut comparison = Comparison::default();
    for options in ["-O0", "-O2", "-O3 -s"] {
        program.compare(&mut comparison, options, usize::MAX, "stepi", STEPS);
    }
    comparison.finish(program.source);
}

#[test]
fn exceptions_of_cpp() {
    let program = Program {
        compiler: || tools::GXX.path(),
        source: "calls.cpp",
        options: "-w -pthread -std=c++17",
    };
    let mut comparison = Comparison::default();
    for options in ["-O0", "-O2", "-O3 -s -fno-plt", "-O2 -static -s"] {
        program.compare(&mut comparison, options, usize::MAX, "stepi", STEPS);
    }
    // Enough steps to reach all stages of the runtime's own unwinding.
    program.compare(&mut comparison, "-O2", usize::MAX, "stepi 97", 150);
    comparison.finish(program.source);
}

#[test]
fn panics_of_rust() {
    let program = Program {
        compiler: || tools::rustc().unwrap(),
        source: "calls.rs",
        options: "--edition 2021",
    };
    let mut comparison = Comparison::default();
    for options in [
        "-g",
        "-O",
        "-O -C strip=symbols",
        "-O -C force-frame-pointers",
    ] {
        program.compare(&mut comparison, options, usize::MAX, "stepi", STEPS);
    }
    program.compare(&mut comparison, "-O", usize::MAX, "stepi 97", 150);
    comparison.finish(program.source);
}

#[test]
fn assembly_code_of_libcrypto() {
    let program = Program {
        compiler: || tools::GCC.path(),
        source: "crypto.c",
        options: "-w",
    };
    let mut comparison = Comparison::default();
    program.compare(&mut comparison, "-O2", 300, "stepi 3", 5);
    comparison.finish(program.source);
}
