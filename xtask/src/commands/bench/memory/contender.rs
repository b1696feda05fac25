//! The ways to profile memory and exceptions that are compared, as commands to run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use xtask::interpreters::Interpreter;
use xtask::process::{capture, find_program};

use super::super::workload::directory;
use crate::commands::observe::child::Running;

/// What a profiler is given to begin. The kernel is not asked whether its BPF programs run: accounting
/// for their time would take time at each of their runs.
const BEGIN: Duration = Duration::from_secs(1);

/// When a profiler ends by itself.
const LONGEST: Duration = Duration::from_secs(600);

/// Time limit of a profiler's end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A way to profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    /// The agent with these events.
    Agent(&'static str),
    /// Each page fault as a line of text, without stacks.
    PerfTrace,
    /// With so many frames of each allocation.
    Tracemalloc(u32),
    Memray,
    /// With native stacks too.
    MemrayNative,
    MemrayAttach,
}

/// Where the profilers are.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) agent: PathBuf,
    /// The interpreter of all workloads, which can import memray if it is there.
    pub(super) python: Interpreter,
    /// Why memray is not there.
    pub(super) without_memray: Option<String>,
}

/// A profiler that is attached to a process.
#[derive(Debug)]
pub(super) struct Attached {
    running: Running,
    contender: Contender,
}

impl Contender {
    pub(super) fn name(self) -> String {
        match self {
            Self::Agent(event) => format!("agent {event}"),
            Self::PerfTrace => "perf trace -F all".to_owned(),
            Self::Tracemalloc(1) => "tracemalloc, 1 frame".to_owned(),
            Self::Tracemalloc(frames) => format!("tracemalloc, {frames} frames"),
            Self::Memray => "memray run".to_owned(),
            Self::MemrayNative => "memray run --native".to_owned(),
            Self::MemrayAttach => "memray attach".to_owned(),
        }
    }

    /// Attaches it to a process from outside.
    pub(super) fn attach(self, tools: &Tools, pid: u32, output: &Path) -> Result<Attached> {
        let mut command = match self {
            Self::Agent(events) => {
                let mut command = Command::new(&tools.agent);
                command
                    .args(["--event", events])
                    .args(["--duration", &format!("{}s", LONGEST.as_secs())]);
                command
            }
            Self::PerfTrace => {
                let perf = find_program("perf").context("no perf: install linux-perf")?;
                let mut command = Command::new(perf);
                command.args(["trace", "-F", "all", "--no-syscalls"]);
                command
            }
            _ => return Err(anyhow!("{} is part of the program", self.name())),
        };
        command
            .args(["--pid", &pid.to_string()])
            .arg("--output")
            .arg(output);
        let mut running = Running::start(&mut command)?;
        thread::sleep(BEGIN);
        running.wait_until("the beginning", LONGEST, || Some(()))?;
        Ok(Attached {
            running,
            contender: self,
        })
    }

    /// What an interpreter is started with so that the program has it from the beginning.
    pub(super) fn options(self, tools: &Tools, output: &Path) -> Result<Vec<OsString>> {
        let memray = match self {
            Self::Tracemalloc(frames) => {
                return Ok(vec!["-X".into(), format!("tracemalloc={frames}").into()]);
            }
            Self::Memray => ["run", "--quiet"].as_slice(),
            Self::MemrayNative => ["run", "--quiet", "--native"].as_slice(),
            _ => return Ok(Vec::new()),
        };
        tools.memray()?;
        let mut options: Vec<OsString> = vec!["-m".into(), "memray".into()];
        options.extend(memray.iter().map(OsString::from));
        options.extend(["--force".into(), "--output".into(), output.into()]);
        Ok(options)
    }

    /// Lets a debugger start it in a process, where that is the way.
    pub(super) fn inject(self, tools: &Tools, pid: u32, output: &Path) -> Result<()> {
        if self != Self::MemrayAttach {
            return Ok(());
        }
        tools.memray()?;
        let attach = ["-m", "memray", "attach", "--force", "--output"];
        capture(
            Command::new(&tools.python.path)
                .args(attach)
                .arg(output)
                .arg(pid.to_string()),
        )?;
        Ok(())
    }
}

impl Tools {
    fn memray(&self) -> Result<()> {
        match &self.without_memray {
            Some(why) => Err(anyhow!("no memray: {why}")),
            None => Ok(()),
        }
    }
}

impl Attached {
    pub(super) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Ends it, and waits until its file is written.
    pub(super) fn finish(self) -> Result<()> {
        match self.contender {
            // It does not count the signal by which others are ended as a success.
            Contender::PerfTrace => self.running.interrupt(END_LIMIT),
            _ => self.running.terminate(END_LIMIT),
        }
    }
}

/// Where a profiler writes, a file with this extension.
pub(super) fn output(extension: &str) -> Result<PathBuf> {
    Ok(directory()?.join(format!("memory.{extension}")))
}
