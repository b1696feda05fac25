//! The processes of the scenario.
//!
//! Invariants: each has a service name of its own, so that its samples are in profiles of their own;
//! all end when [`Processes`] is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use xtask::interpreters::{self, roots};
use xtask::tools::go::Go;
use xtask::{paths, workloads};

use super::super::workload::directory;
use super::timeline::Timeline;
use crate::commands::observe::child::Running;
use crate::commands::observe::proc;

/// An interpreter with all checks of CPython's own and all debug information; its root file system
/// also has the ordinary build, stripped, with compressed debug files.
const INTERPRETER: &str = "3.13-debug";

/// The name of the ordinary build.
const STRIPPED: &str = "python3.13";

/// What is started.
struct Program {
    service: &'static str,
    what: &'static str,
    /// How busy it is, in percent of a processor.
    percent: u32,
    command: Command,
    go: Option<Go>,
}

/// A running program.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) service: &'static str,
    pub(super) what: &'static str,
    /// The toolchain that it was compiled with.
    go: Option<Go>,
    pub(super) cpu: Timeline,
    running: Running,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Processes(pub(super) Vec<Process>);

impl Processes {
    /// Starts them, to run for so long.
    pub(super) fn start(duration: Duration) -> Result<Self> {
        let temporary = directory()?.join("tmp");
        // Missing at the first start; programs that were ended have left their files.
        drop(fs::remove_dir_all(&temporary));
        fs::create_dir_all(&temporary)?;
        let start = |mut program: Program| -> Result<Process> {
            program
                .command
                .arg(duration.as_secs().to_string())
                .arg(program.percent.to_string())
                .env("OTEL_SERVICE_NAME", program.service)
                .env("TMPDIR", &temporary)
                .current_dir(paths::workspace());
            let running = Running::start(&mut program.command)
                .with_context(|| format!("cannot start {}", program.service))?;
            Ok(Process {
                service: program.service,
                what: program.what,
                go: program.go,
                cpu: Timeline::default(),
                running,
            })
        };
        Ok(Self(all()?.into_iter().map(start).collect::<Result<_>>()?))
    }

    /// Adds the CPU time of each until now; an error when one has ended.
    pub(super) fn observe(&mut self) -> Result<()> {
        for process in &mut self.0 {
            let used = proc::cpu_time(process.running.pid());
            let used = used.with_context(|| format!("{} has ended too early", process.service))?;
            process.cpu.add(SystemTime::now(), used);
        }
        Ok(())
    }
}

impl Process {
    /// The toolchain that a file was compiled with: libraries are none of Go's.
    pub(super) fn go_of(&self, file: &str) -> Option<&Go> {
        let program = fs::read_link(format!("/proc/{}/exe", self.running.pid())).ok()?;
        self.go.as_ref().filter(|_| program == Path::new(file))
    }

    /// A file as the process sees it.
    pub(super) fn path_of(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{file}", self.running.pid()))
    }
}

fn all() -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for program in workloads::go_programs()? {
        programs.push(Program {
            service: match program.name {
                "keys" => "bench-keys",
                "objects" => "bench-objects",
                _ => "bench-queries",
            },
            what: "Go, compressed debug information",
            percent: 4,
            command: Command::new(program.path),
            go: Some(program.go),
        });
    }
    let python = interpreters::named(INTERPRETER)?;
    let script = paths::workspace().join("xtask/bench/varied.py");
    let stripped = roots::command(&python.path, STRIPPED)
        .with_context(|| format!("{} has no root file system", python.path.display()))?;
    for (service, what, percent, mut command) in [
        (
            "bench-python-debug",
            "CPython, debug build",
            4,
            Command::new(&python.path),
        ),
        (
            "bench-python-stripped",
            "CPython, stripped, compressed debug file",
            50,
            stripped,
        ),
    ] {
        command.arg("-B").arg(&script);
        programs.push(Program {
            service,
            what,
            percent,
            command,
            go: None,
        });
    }
    programs.push(Program {
        service: "bench-units",
        what: "C++, hundreds of MB of compressed debug information",
        percent: 4,
        command: Command::new(workloads::cpp_program()?),
        go: None,
    });
    Ok(programs)
}
