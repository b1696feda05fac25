//! What a command line asks for, validated as far as it alone allows.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, time::Duration};

use clap_complete::Shell;

use super::{effect::NoEffect, percent::Percent};
use crate::{
    aggregate::Filter,
    commands::{
        outputs::WantedOutput,
        top::choices::{Event, Sort, View},
    },
    formats::{EncodeOptions, Format},
    profile::{Kind, RecordedExceptions},
    store::Selection,
    targets::{LaunchUser, selection::ProcessSelection},
};

/// The command to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `agent --pid` and `agent -- COMMAND`: sample and write a profile.
    Record(RecordOptions),
    /// `agent run`: sample every process of the host.
    Run(RunOptions),
    /// `agent report`: list or merge stored profiles.
    Report(ReportOptions),
    /// `agent top`: where the time of a process or of the host goes, live.
    Top(TopOptions),
    /// `agent gil`: who holds the GIL of a process, and who waits for it.
    Gil(WaitOptions),
    /// `agent lock`: for which locks the threads of a process wait.
    Lock(WaitOptions),
    /// `agent dump`: the stacks of the threads of a process.
    Dump(DumpOptions),
    /// `agent dump --core`: the stacks of the threads of a core dump.
    DumpCore(CoreOptions),
    /// `agent doctor`: examine a process or this host.
    Doctor(DoctorOptions),
    /// `agent completions`: print the completions of a shell.
    Completions(Shell),
    /// `agent man`: print the manual page.
    Man,
}

/// Options of `agent top`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct TopOptions {
    /// The processes; [`None`] for all of the host.
    pub processes: Option<ProcessSelection>,
    /// Whether to sample their descendants too.
    pub children: bool,
    /// Samples per second of CPU time, in hertz.
    pub rate: u32,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Whether to trace context switches.
    pub trace_switches: bool,
    /// The time that functions and lines begin with.
    pub event: Event,
    /// The table to begin with.
    pub view: View,
    /// The order to begin with.
    pub sort: Sort,
    /// Time between two refreshes.
    pub delay: Duration,
    /// Whether to print plain text.
    pub batch: bool,
    /// After how many refreshes to end.
    pub iterations: Option<u64>,
}

/// Options of `agent gil` and `agent lock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitOptions {
    /// The process.
    pub process: ProcessSelection,
    /// For how long.
    pub duration: Duration,
    /// Samples per second of the time of each thread, in hertz.
    pub rate: u32,
}

/// Options of `agent dump`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct DumpOptions {
    /// The processes.
    pub processes: ProcessSelection,
    /// Whether to show their descendants too.
    pub children: bool,
    /// Whether to walk native frames too.
    pub native: bool,
    /// Which of them are shown.
    pub frames: ShownFrames,
    /// Whether to show source lines.
    pub source: bool,
    /// Whether to show the tasks of asyncio.
    pub tasks: bool,
    /// Most characters of a value, if arguments and local variables are shown.
    pub locals: Option<usize>,
    /// Time after which a thread that has no stack yet is shown without one.
    pub timeout: Duration,
    /// How many dumps, one after another.
    pub repeat: u32,
    /// Time from the beginning of a dump to that of the next one.
    pub interval: Duration,
    /// Whether to print JSON.
    pub json: bool,
}

/// Options of `agent dump --core`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreOptions {
    /// The core dump.
    pub file: PathBuf,
    /// The directory with the files that the process had; [`None`] for those of this machine.
    pub root: Option<PathBuf>,
    /// Which native frames to show; [`None`] for none.
    pub native: Option<ShownFrames>,
    /// Whether to show source lines.
    pub source: bool,
    /// Whether to show the tasks of asyncio.
    pub tasks: bool,
    /// Most characters of a value, if arguments and local variables are shown.
    pub locals: Option<usize>,
    /// Whether to print JSON.
    pub json: bool,
}

/// Which native frames are shown besides those of the program and its libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownFrames {
    /// Those of the kernel.
    pub kernel: bool,
    /// Those of the interpreter itself, and those that start threads.
    pub internals: bool,
    /// Those that are inlined.
    pub inlined: bool,
}

/// Options of `agent doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorOptions {
    /// The process; [`None`] for this host.
    pub process: Option<ProcessSelection>,
    /// The configuration file of the agent of this host.
    pub config: Option<PathBuf>,
}

/// Options of `agent run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Whether only to validate the configuration.
    pub check_config: bool,
    /// Configuration keys that were given as flags, with their values.
    pub keys: Vec<(&'static str, String)>,
}

/// Options of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Which processes to sample.
    pub target: Target,
    /// Whether to sample its descendants too.
    pub children: bool,
    /// For how long; [`None`] until the target exits.
    pub duration: Option<Duration>,
    /// What to sample, at least one.
    pub kinds: Vec<&'static Kind>,
    /// Samples per second of CPU time, in hertz.
    pub rate: u32,
    /// Of the events of waiting, where it is another rate.
    pub wait_rate: Option<NonZeroU32>,
    /// Which samples to keep.
    pub filter: Filter,
    /// Whether to trace context switches.
    pub trace_switches: bool,
    /// Which exceptions to record.
    pub exceptions: RecordedExceptions,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Where to write, and in which formats, at least one.
    pub outputs: Vec<WantedOutput>,
    /// How to write.
    pub encoding: EncodeOptions,
}

/// What to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Running processes.
    Processes(ProcessSelection),
    /// A program to start, from its first instruction to its exit.
    Program {
        /// Its path, or its name in `PATH`.
        program: OsString,
        /// Its arguments.
        arguments: Vec<OsString>,
        /// Its user, if not the agent's.
        user: Option<LaunchUser>,
    },
}

/// Options of `agent report`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// The folder, if not the default one.
    pub folder: Option<PathBuf>,
    /// Which profiles.
    pub selection: Selection,
    /// Files and folders instead of that folder.
    pub files: Vec<PathBuf>,
    /// The type of values, where a file has several.
    pub sample_type: Option<String>,
    /// Where to write them merged, and in which formats; without any and a view they are listed.
    pub outputs: Vec<WantedOutput>,
    /// How to write.
    pub encoding: EncodeOptions,
    /// How to show them merged.
    pub view: Option<ReportView>,
    /// Which to compare instead.
    pub diff: Option<DiffOptions>,
}

/// Two profiles to compare, each a file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// The first.
    pub before: PathBuf,
    /// The second.
    pub after: PathBuf,
    /// Whether the first is scaled to the total of the second.
    pub normalize: bool,
    /// Rows of the table, if not the default.
    pub lines: Option<usize>,
    /// Growth that is a failure.
    pub fail_above: Option<Percent>,
}

/// How to show merged profiles in the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportView {
    /// Whether there is a table of functions.
    pub table: bool,
    /// Whether there is a tree of calls.
    pub tree: bool,
    /// Rows of each, if not the default.
    pub lines: Option<usize>,
    /// Share of all below which the tree leaves out a function.
    pub min_share: Percent,
}

/// Why a command line is not valid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UsageError {
    /// No format has the output's extension.
    #[error(
        "no format has the extension of '{}': use {}, or choose a format with --format",
        path.display(),
        known_extensions()
    )]
    UnknownExtension {
        /// The output.
        path: PathBuf,
    },
    /// The format is about when samples were taken.
    #[error(
        "stored profiles do not say when their samples were taken, which {format} shows: choose \
         another format, or capture a process with agent --pid"
    )]
    NoTimes {
        /// The format.
        format: Format,
    },
    /// The program writes to standard output too.
    #[error("standard output belongs to the program: name a file with --output")]
    SharedOutput,
    /// Several outputs cannot share standard output.
    #[error("standard output can have one profile: name files with --output for the others")]
    StandardOutputTwice,
    /// It cannot be said which format is whose.
    #[error(
        "it is not clear which output has which format: give each file the extension of its format, or give as \
         many --format as --output, in the same order"
    )]
    WhichFormat,
    /// Several profiles cannot be written to one output.
    #[error("several events have a file each: name a file with --output, or choose one event")]
    OneOutput,
    /// A flag changes nothing of what is asked for.
    #[error(transparent)]
    NoEffect(#[from] NoEffect),
    /// The switches of a whole host.
    #[error(
        "context switches are traced of processes that are chosen: add --pid or --name, or leave out \
         --trace-switches"
    )]
    SwitchesOfHost,
    /// The time range is empty.
    #[error("--from must be earlier than --to")]
    EmptyRange,
    /// The time between two refreshes.
    #[error("--delay must be between 100ms and 10m")]
    Delay,
    /// A table of processes where there is one.
    #[error("there is one process: leave out --pid for a table of all, or add --children")]
    OneProcess,
    /// No process is chosen.
    #[error("no process is chosen: add --pid, --name, --unit, --container, --pod or --cgroup")]
    NoProcess,
}

/// For example `.pb.gz .pb (pprof), .svg (svg)`.
fn known_extensions() -> String {
    let formats = Format::ALL.into_iter().map(|format| {
        let dotted = format.endings().iter().map(|ending| format!(".{ending}"));
        format!("{} ({format})", dotted.collect::<Vec<_>>().join(" "))
    });
    formats.collect::<Vec<_>>().join(", ")
}
