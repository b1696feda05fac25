//! Flags of a capture: `agent --pid` and `agent -- COMMAND`.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    effect::{self, Subject, Use},
    options::{RecordOptions, Target, UsageError},
    outputs,
    target::{GROUP, TargetFlags},
    values,
};
use crate::{
    aggregate::{Filter, ThreadFilter},
    commands::output::Destination,
    formats::{EncodeOptions, Format, FunctionNames},
    profile::{CPU, Kind, Period, RecordedExceptions},
    targets::LaunchUser,
};

/// How long a process is sampled by default.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Samples per second by default.
const DEFAULT_RATE: u32 = 99;

/// Highest rate, in hertz: above it samples cost more than they are worth.
pub(super) const MAX_RATE: i64 = 10_000;

// What flags are about that not all captures have.

const TIME: Subject = Subject {
    about: "samples of time",
    advice: "add an event of time, as in --event cpu",
};
const WAITS: Subject = Subject {
    about: "waits",
    advice: "add an event of waiting, as in --event wall",
};
const IDLE_THREADS: Subject = Subject {
    about: "threads that wait for work",
    advice: "add an event that has them, as in --event wall",
};
const THREADS: Subject = Subject {
    about: "threads",
    advice: "add an event of threads, as in --event cpu",
};
const EXCEPTIONS: Subject = Subject {
    about: "exceptions",
    advice: "add --event exceptions",
};

const INTERPRETERS: Subject = Subject {
    about: "native frames of the interpreter",
    advice: "drop --no-native",
};

/// The flags.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct RecordFlags {
    #[command(flatten)]
    processes: TargetFlags,

    /// Program to start and to sample until it exits, with its arguments
    #[arg(
        last = true,
        conflicts_with = GROUP,
        required_unless_present = GROUP,
        help_heading = "Target"
    )]
    command: Vec<OsString>,

    /// Start the program as this user: a name, an id or UID:GID [default: the agent's]
    #[arg(
        long,
        value_name = "USER",
        conflicts_with = GROUP,
        requires = "command",
        help_heading = "Target"
    )]
    user: Option<LaunchUser>,

    /// Sample its descendants too
    #[arg(short, long, alias = "subprocesses", help_heading = "Target")]
    children: bool,

    /// Time to sample: 30, 500ms, 1m30s; Ctrl-C ends it early [default: 10s, a program: until it
    /// exits]
    #[arg(
        short,
        long,
        value_name = "TIME",
        help_heading = "Sampling",
        value_parser = values::duration
    )]
    duration: Option<Duration>,

    /// What to sample; several, as in cpu,wall, have a file each
    #[arg(
        short,
        long,
        value_name = "EVENT",
        default_value = CPU.name,
        value_delimiter = ',',
        help_heading = "Sampling",
        value_parser = values::event()
    )]
    event: Vec<&'static Kind>,

    /// Samples per second of CPU time [default: 99]
    #[arg(
        short,
        long,
        value_name = "HZ",
        help_heading = "Sampling",
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    rate: Option<u32>,

    /// Samples per second of the time of each thread, of the events of waiting [default: the rate]
    #[arg(
        long,
        value_name = "HZ",
        help_heading = "Sampling",
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    wait_rate: Option<u32>,

    /// Native and kernel frames too [default]
    #[arg(long, overrides_with = "no_native", help_heading = "Sampling")]
    native: bool,

    /// Python frames only
    #[arg(long, help_heading = "Sampling")]
    no_native: bool,

    /// Only samples of threads that hold the GIL
    #[arg(short, long, help_heading = "Sampling")]
    gil: bool,

    /// Only samples of threads with this name, or of the thread with this id
    #[arg(long, value_name = "NAME|TID", help_heading = "Sampling")]
    thread: Option<ThreadFilter>,

    /// Threads that wait for work too, below the root [idle]; of wall, off-cpu and lock
    #[arg(long, help_heading = "Sampling")]
    idle: bool,

    /// Trace context switches too, so that waits of any length are exact; of the events of waiting
    #[arg(long, help_heading = "Sampling")]
    trace_switches: bool,

    /// Exceptions too by which iterators, generators and tasks end; of exceptions
    #[arg(long, help_heading = "Sampling")]
    all_exceptions: bool,

    /// File to write, - for standard output; may be repeated [default: agent-PID.pb.gz, numbered; of
    /// several the first PID]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Vec<PathBuf>,

    /// pprof, folded, svg, callgrind, jsonl; with times speedscope, cpuprofile, chrome, firefox, perf-script
    /// [default: by the extension of FILE, else pprof]. Of several files: one for each, in their order, or for
    /// each whose extension says none
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = values::format()
    )]
    format: Vec<Format>,

    /// How Python functions are named: plain, as in Worker.run, or module, as in
    /// shop.orders.Worker.run
    #[arg(
        long,
        value_name = "NAMES",
        default_value = FunctionNames::Plain.name(),
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = values::function_names()
    )]
    function_names: FunctionNames,

    /// Frames of the interpreter by which it runs functions too [default: in pprof, folded, callgrind,
    /// perf-script and jsonl]
    #[arg(long, overrides_with = "no_internals", help_heading = "Output")]
    internals: bool,

    /// No such frames [default: in the other formats and the summary]
    #[arg(long, help_heading = "Output")]
    no_internals: bool,

    /// Lines of a function as one frame, with its first line
    #[arg(
        short = 'F',
        long,
        conflicts_with = "nolineno",
        help_heading = "Output"
    )]
    function: bool,

    /// No line numbers, in the summary neither
    #[arg(long, help_heading = "Output")]
    nolineno: bool,

    /// Whole paths in the names of frames, also in formats that have them elsewhere, and in the summary
    #[arg(long, help_heading = "Output")]
    full_filenames: bool,

    /// Begin each stack with its thread (pprof, speedscope and the other
    /// formats with times always have it; cpuprofile where there are several)
    #[arg(short, long, help_heading = "Output")]
    threads: bool,
}

impl RecordFlags {
    /// What becomes of flags that not all captures have a use for.
    fn uses(&self) -> [Use; 7] {
        let has = |is_of: fn(&Kind) -> bool| self.event.iter().any(|kind| is_of(kind));
        [
            Use::of(&TIME, has(|kind| kind.period == Period::Rate))
                .flag("--rate", self.rate.is_some()),
            Use::of(&WAITS, has(Kind::is_of_passes)).flag("--wait-rate", self.wait_rate.is_some()),
            Use::of(&WAITS, has(Kind::needs_stacks_of_passes))
                .flag("--trace-switches", self.trace_switches),
            Use::of(&THREADS, has(|kind| !kind.is_about_tasks())).flag("--gil", self.gil),
            Use::of(&IDLE_THREADS, has(Kind::has_idle_threads)).flag("--idle", self.idle),
            Use::of(&EXCEPTIONS, has(Kind::is_about_exceptions))
                .flag("--all-exceptions", self.all_exceptions),
            Use::of(&INTERPRETERS, !self.no_native).flag("--internals", self.internals),
        ]
    }
}

impl TryFrom<RecordFlags> for RecordOptions {
    type Error = UsageError;

    fn try_from(flags: RecordFlags) -> Result<Self, UsageError> {
        effect::check(flags.uses())?;
        let mut command = flags.command.into_iter();
        let target = match command.next() {
            Some(program) => Target::Program {
                program,
                arguments: command.collect(),
                user: flags.user,
            },
            // clap requires one of the two.
            None => Target::Processes(flags.processes.into()),
        };
        let is_program = matches!(target, Target::Program { .. });
        let outputs = outputs::of(flags.output, flags.format)?;
        let mut destinations = outputs.iter().map(|output| &output.destination);
        if is_program && destinations.any(|it| *it == Destination::StandardOutput) {
            return Err(UsageError::SharedOutput);
        }
        let mut kinds = Vec::new();
        for kind in flags.event {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut destinations = outputs.iter().map(|output| &output.destination);
        if kinds.len() > 1 && !destinations.all(Destination::can_have_several_files) {
            return Err(UsageError::OneOutput);
        }
        let default_duration = (!is_program).then_some(DEFAULT_DURATION);
        Ok(Self {
            target,
            children: flags.children,
            duration: flags.duration.or(default_duration),
            kinds,
            rate: flags.rate.unwrap_or(DEFAULT_RATE),
            wait_rate: flags.wait_rate.and_then(NonZeroU32::new),
            filter: Filter {
                gil_only: flags.gil,
                thread: flags.thread,
                idle: flags.idle,
            },
            trace_switches: flags.trace_switches,
            exceptions: RecordedExceptions::of_option(flags.all_exceptions),
            // Of both, clap keeps the last one.
            native: !flags.no_native,
            outputs,
            encoding: EncodeOptions {
                threads: flags.threads,
                function_names: flags.function_names,
                internals: values::internals(flags.internals, flags.no_internals),
                line_numbers: values::line_numbers(flags.function, flags.nolineno),
                full_file_names: flags.full_filenames,
                ..EncodeOptions::default()
            },
        })
    }
}
