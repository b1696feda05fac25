//! The profilers that are compared, as commands to run, and the units of what they write.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};

/// The version of austin: the last one whose program runs with the C library of Debian 12.
pub(super) const AUSTIN_VERSION: &str = "3.7.0";

/// A way to profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contender {
    /// The agent with these events.
    Agent(&'static str),
    /// The same with `--trace-switches`.
    Traced(&'static str),
    /// py-spy with these options.
    PySpy(&'static [&'static str]),
    Austin,
    /// `profiling.sampling`, which CPython has since 3.15, in this mode.
    Tachyon(&'static str),
}

/// What a profile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The elapsed time of all threads.
    Wall,
    /// The time in which they hold the GIL.
    Gil,
}

/// Where the profilers are, or why they are not there.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) agent: PathBuf,
    pub(super) py_spy: Result<PathBuf>,
    pub(super) austin: Result<PathBuf>,
}

impl Contender {
    pub(super) fn name(self) -> String {
        match self {
            Self::Agent(events) => format!("agent {events}"),
            Self::Traced(events) => format!("agent {events} --trace-switches"),
            Self::PySpy(options) => format!("py-spy {}", options.join(" ")),
            Self::Austin => "austin".to_owned(),
            Self::Tachyon(mode) => format!("profiling.sampling --mode {mode}"),
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Agent("gil-held") | Self::PySpy(["--gil"]) | Self::Tachyon("gil") => Kind::Gil,
            _ => Kind::Wall,
        }
    }

    /// Profiles a process for a time into the file `output`.
    pub(super) fn command(
        self,
        tools: &Tools,
        pid: u32,
        rate_hz: u32,
        duration: Duration,
        output: &Path,
    ) -> Result<Command> {
        let seconds = duration.as_secs().to_string();
        let (rate, pid) = (rate_hz.to_string(), pid.to_string());
        let mut command = match self {
            Self::Agent(events) | Self::Traced(events) => {
                let mut command = Command::new(&tools.agent);
                if matches!(self, Self::Traced(_)) {
                    command.arg("--trace-switches");
                }
                command.args(["--event", events, "--pid", &pid, "--rate", &rate]);
                command.args(["--duration", &format!("{seconds}s"), "--output"]);
                command.arg(output);
                return Ok(command);
            }
            Self::PySpy(options) => {
                let mut command = Command::new(there(&tools.py_spy)?);
                command.args(["record", "--format", "raw"]).args(options);
                command.args(["--rate", &rate, "--duration", &seconds, "--pid", &pid]);
                command.arg("--output");
                command
            }
            Self::Austin => {
                let mut command = Command::new(there(&tools.austin)?);
                let interval = format!("{}us", 1_000_000 / rate_hz.max(1));
                command.args(["--interval", &interval, "--exposure", &seconds]);
                command.args(["--pid", &pid, "--output"]);
                command
            }
            Self::Tachyon(mode) => {
                // Where the program runs: in that file system the interpreter finds itself.
                let mut command = Command::new("nsenter");
                command.args(["--target", &pid, "--mount", "--root", "--wd=/"]);
                command.args(["python3.15", "-m", "profiling.sampling", "attach"]);
                command.args(["--all-threads", "--sampling-rate", &rate]);
                command.args(["--duration", &seconds, "--mode", mode]);
                command.args(["--collapsed", "-o"]).arg(output).arg(&pid);
                // Others need files that this root file system lacks.
                command.env("LC_ALL", "C");
                return Ok(command);
            }
        };
        command.arg(output);
        Ok(command)
    }

    /// The file that it has written when it was told to write to `output`.
    pub(super) fn written(self, output: &Path) -> PathBuf {
        match self {
            Self::Agent(events) if events.contains(',') => output.with_extension("wall.folded"),
            _ => output.to_owned(),
        }
    }

    /// How many of its units are a second.
    pub(super) fn units_per_second(self, rate_hz: u32) -> f64 {
        match self {
            Self::Agent(_) | Self::Traced(_) => 1e9,
            Self::Austin => 1e6,
            Self::PySpy(_) | Self::Tachyon(_) => f64::from(rate_hz),
        }
    }
}

fn there(program: &Result<PathBuf>) -> Result<&PathBuf> {
    program.as_ref().map_err(|error| anyhow!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_events_have_files_of_their_own() {
        let output = Path::new("/tmp/waiting.folded");
        assert_eq!(Contender::Agent("wall").written(output), output);
        assert_eq!(
            Contender::Agent("wall,gil").written(output),
            Path::new("/tmp/waiting.wall.folded")
        );
    }

    #[test]
    fn a_program_that_is_missing_says_why() {
        let tools = Tools {
            agent: PathBuf::from("agent"),
            py_spy: Err(anyhow!("no network")),
            austin: Ok(PathBuf::from("austin")),
        };
        let second = Duration::from_secs(1);
        let command =
            |contender: Contender| contender.command(&tools, 7, 100, second, Path::new("profile"));
        let error = command(Contender::PySpy(&["--gil"])).unwrap_err();
        assert_eq!(error.to_string(), "no network");
        let austin = command(Contender::Austin).unwrap();
        assert_eq!(austin.get_args().last().unwrap(), "profile");
    }
}
