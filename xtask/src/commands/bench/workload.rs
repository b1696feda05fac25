//! The programs that are profiled, and their progress.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use xtask::interpreters::Interpreter;
use xtask::paths;

use crate::commands::observe::child::Running;
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;

/// The number of eight-byte counters of a workload.
const SLOTS: usize = 64;

/// When a workload ends by itself.
const LONGEST: Duration = Duration::from_secs(3600);

/// Time limit of the first unit of a workload.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The kind of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One thread, 30 frames of pure Python
    DeepSingle,
    /// Ten threads of 30 frames that contend for the interpreter's lock
    Threads,
    /// One busy and nine waiting threads
    MostlyIdle,
    /// The stack changes every microsecond
    ShortCalls,
    /// Compression, hashes, JSON, regular expressions
    CExtensions,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DeepSingle => "deep_single",
            Self::Threads => "threads",
            Self::MostlyIdle => "mostly_idle",
            Self::ShortCalls => "short_calls",
            Self::CExtensions => "c_extensions",
        }
    }

    /// Whether its stacks are as deep as those that the budget for a sample is made for.
    pub(super) fn has_usual_depth(self) -> bool {
        matches!(self, Self::DeepSingle | Self::Threads | Self::MostlyIdle)
    }
}

/// A running workload.
#[derive(Debug)]
pub(super) struct Workload {
    process: Running,
    units: PathBuf,
}

impl Workload {
    /// Starts the program of this name and waits until it is at work.
    pub(super) fn start(python: &Interpreter, name: &str, argument: Option<u32>) -> Result<Self> {
        Self::start_with(python, &[], name, argument)
    }

    /// The same with these arguments of the interpreter before those of the program.
    pub(super) fn start_with(
        python: &Interpreter,
        options: &[OsString],
        name: &str,
        argument: Option<u32>,
    ) -> Result<Self> {
        let units = directory()?.join(format!("{name}.units"));
        fs::write(&units, [0; SLOTS * size_of::<u64>()])
            .with_context(|| format!("cannot write {}", units.display()))?;
        let mut command = Command::new(&python.path);
        command
            // No compiled files in the sources.
            .arg("-B")
            .args(options)
            .arg(
                paths::workspace()
                    .join("xtask/bench")
                    .join(format!("{name}.py")),
            )
            .arg(LONGEST.as_secs().to_string())
            .args(argument.map(|argument| argument.to_string()))
            .env("WORK_UNITS_FILE", &units)
            // Processes that are compared do the same.
            .env("PYTHONHASHSEED", "0");
        let mut workload = Self {
            process: Running::start(&mut command)?,
            units: units.clone(),
        };
        workload
            .process
            .wait_until("unit of work", START_LIMIT, || {
                counts(&units)
                    .is_ok_and(|counts| counts.iter().any(|&count| count != 0))
                    .then_some(())
            })?;
        Ok(workload)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The numbers that the workload counts in.
    pub(super) fn counts(&self) -> Result<[u64; SLOTS]> {
        counts(&self.units)
    }

    /// Sets one of these numbers, by which some workloads are told what to do.
    pub(super) fn set_count(&self, slot: usize, count: u64) -> Result<()> {
        let offset = u64::try_from(slot * size_of::<u64>())?;
        File::options()
            .write(true)
            .open(&self.units)
            .and_then(|file| file.write_all_at(&count.to_ne_bytes(), offset))
            .with_context(|| format!("cannot write {}", self.units.display()))
    }

    /// Waits for its own end, until `limit` after its start.
    pub(super) fn finish(self, limit: Duration) -> Result<()> {
        self.process.finish(limit).map(drop)
    }

    pub(super) fn cpu_time(&self) -> Result<Duration> {
        proc::cpu_time(self.pid())
    }

    pub(super) fn progress(&self) -> Result<Progress> {
        Ok(Progress {
            units: self.counts()?.iter().sum(),
            at: Instant::now(),
            cpu: self.cpu_time()?,
            wait: proc::run_queue_wait(self.pid())?,
        })
    }
}

fn counts(path: &Path) -> Result<[u64; SLOTS]> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut counts = [0; SLOTS];
    for (count, bytes) in counts.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
        *count = u64::from_ne_bytes(bytes.try_into()?);
    }
    Ok(counts)
}

/// Where workloads and profilers write.
pub(super) fn directory() -> Result<PathBuf> {
    let directory = paths::target().join("bench");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

/// The progress of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    units: u64,
    at: Instant,
    cpu: Duration,
    wait: Duration,
}

impl Progress {
    pub(super) fn since(&self, start: &Self) -> Duration {
        self.at - start.at
    }

    pub(super) fn cpu_since(&self, start: &Self) -> Duration {
        self.cpu.saturating_sub(start.cpu)
    }
}

/// The speed between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Speed {
    /// Units per second of CPU time: other load on the machine hardly matters, but neither do
    /// pauses that a profiler imposes. [`None`] when it got no CPU at all.
    pub(super) by_cpu: Option<f64>,
    /// Units per second less the wait for a processor: pauses count, the wait for others does
    /// not. [`None`] when the threads have waited for most of the time, which leaves too little.
    pub(super) by_wall: Option<f64>,
}

impl Speed {
    pub(super) fn between(start: &Progress, end: &Progress) -> Self {
        let units = float(end.units - start.units);
        let cpu = end.cpu_since(start);
        let wall = end.since(start);
        let wait = end.wait.saturating_sub(start.wait);
        Self {
            by_cpu: (!cpu.is_zero()).then(|| units / cpu.as_secs_f64()),
            by_wall: (wait < wall / 2).then(|| units / wall.saturating_sub(wait).as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_is_not_slowness() {
        let at = Instant::now();
        let second = Duration::from_secs(1);
        let start = Progress {
            units: 0,
            at,
            cpu: second,
            wait: second,
        };
        let waited = |wait| Progress {
            units: 300,
            at: at + 4 * second,
            cpu: 3 * second,
            wait: second + wait,
        };
        assert_eq!(
            Speed::between(&start, &waited(second)),
            Speed {
                by_cpu: Some(150.0),
                by_wall: Some(100.0)
            }
        );
        assert_eq!(Speed::between(&start, &waited(3 * second)).by_wall, None);
    }
}
