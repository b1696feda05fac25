//! The profilers that are compared, as commands to run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::agent::{Capture, Stacks};
use crate::commands::observe::child::{Running, Usage};

/// A program that profiles a process.
#[derive(Debug, Clone)]
pub(super) enum Profiler {
    Agent(PathBuf),
    PySpy(PathBuf),
}

impl Profiler {
    /// Profiles a process into the file `output`.
    pub(super) fn start(
        &self,
        pid: u32,
        rate_hz: u32,
        duration: Duration,
        output: &Path,
    ) -> Result<Attached> {
        match self {
            Self::Agent(binary) => {
                Capture::start(binary, pid, rate_hz, duration, output, Stacks::Whole)
                    .map(Attached::Agent)
            }
            Self::PySpy(binary) => {
                let seconds = u32::try_from(duration.as_millis().div_ceil(1000))?;
                let mut command = Command::new(binary);
                command
                    .args(["record", "--format", "raw"])
                    .args(["--rate", &rate_hz.to_string()])
                    .args(["--duration", &seconds.to_string()])
                    .args(["--pid", &pid.to_string()])
                    .arg("--output")
                    .arg(output);
                let running = Running::start(&mut command)?;
                // It does not report when it begins; it reads the symbols of the target in less time.
                thread::sleep(Duration::from_millis(300));
                let duration = Duration::from_secs(seconds.into());
                Ok(Attached::Other { running, duration })
            }
        }
    }
}

/// A profiler that takes samples.
#[derive(Debug)]
pub(super) enum Attached {
    Agent(Capture),
    Other {
        running: Running,
        duration: Duration,
    },
}

impl Attached {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Agent(capture) => capture.pid(),
            Self::Other { running, .. } => running.pid(),
        }
    }

    /// How long it samples.
    pub(super) fn duration(&self) -> Duration {
        match self {
            Self::Agent(capture) => capture.duration(),
            Self::Other { duration, .. } => *duration,
        }
    }

    pub(super) fn finish(self) -> Result<Usage> {
        let duration = self.duration();
        match self {
            Self::Agent(capture) => Ok(capture.finish()?.usage),
            // py-spy counts samples, not seconds, and takes longer when it cannot keep up.
            Self::Other { running, .. } => running.finish(4 * duration + Duration::from_secs(10)),
        }
    }
}

/// Stacks with their numbers of samples, as both profilers write them.
#[derive(Debug)]
pub(super) struct Folded(Vec<(String, u64)>);

impl Folded {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        text.lines()
            .map(|line| {
                let (stack, count) = line.rsplit_once(' ').context("a line without a number")?;
                Ok((stack.to_owned(), count.parse()?))
            })
            .collect::<Result<_>>()
            .map(Self)
            .context("the folded stacks are malformed")
    }

    /// Each stack, as text, with its samples.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(stack, count)| (&**stack, *count))
    }

    /// All samples.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The samples in which this function is somewhere on the stack.
    pub(super) fn with_function(&self, name: &str) -> u64 {
        let is_it = |frame: &str| frame.split(' ').next() == Some(name);
        self.0
            .iter()
            .filter(|(stack, _)| stack.split(';').any(is_it))
            .map(|(_, count)| count)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_by_function() {
        let folded = Folded::parse(
            "<module> (a.py:9);ten (a.py:3) 5\n<module> (a.py:9);tenth (a.py:4) 20\n",
        )
        .unwrap();
        assert_eq!(folded.total(), 25);
        assert_eq!(folded.with_function("ten"), 5);
        assert_eq!(folded.with_function("<module>"), 25);
        assert!(Folded::parse("nothing\n").is_err());
    }
}
