//! The command line: raw flags in, [`Options`] that need no more checking out.
//!
//! Invariants: what clap and this file accept can be done as far as the command line alone tells;
//! whether the output can be written is the business of [`Output::prepare`].

mod host;
mod kept;

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{
    CommandFactory as _, Parser,
    builder::{PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
};

pub use self::kept::{ReportOptions, ReportOutput};
use self::{host::HostFlags, kept::ReportFlags};
pub use crate::commands::output::{Destination, Output, OutputError};
use crate::{
    aggregate::{Filter, ThreadFilter},
    formats::{self, Format},
};

/// How long a process is sampled if nothing else is said.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The longest time that one profile may cover.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// The highest process id there can be, `PID_MAX_LIMIT` of the kernel.
const MAX_PID: i64 = 1 << 22;
/// Samples per second above which samples cost more than they tell.
const MAX_RATE: i64 = 10_000;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sample and write a profile.
    Capture(Options),
    /// Sample every process of the host, until a signal comes.
    Host(HostOptions),
    /// Show what was kept.
    Report(ReportOptions),
    /// Say how a process is seen.
    Doctor {
        /// The process, as the agent sees its id.
        pid: u32,
    },
}

/// How the agent of a host is told what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// File with its configuration.
    pub config: Option<PathBuf>,
    /// Whether only to say if that makes sense.
    pub check_config: bool,
    /// Keys of the configuration that were given as flags, with their values.
    pub keys: Vec<(&'static str, String)>,
}

/// What to sample, and what to make of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to sample.
    pub target: Target,
    /// Whether to sample the processes that it starts as well.
    pub children: bool,
    /// For how long; [`None`] until its end.
    pub duration: Option<Duration>,
    /// Samples per second of CPU time, in hertz.
    pub rate: u32,
    /// Which samples to take.
    pub filter: Filter,
    /// Whether stacks are whole: with native and kernel frames, not those of Python alone.
    pub native: bool,
    /// What to write.
    pub format: Format,
    /// Whether stacks begin with the thread where the format leaves the choice.
    pub threads: bool,
    /// Where to write it.
    pub destination: Destination,
}

/// What to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process that runs, by its id as the agent sees it.
    Process(u32),
    /// A program, from its start to its end.
    Program {
        /// Its path or its name.
        program: OsString,
        /// What it is given.
        arguments: Vec<OsString>,
    },
}

impl Options {
    /// What an encoder wants to know of these options.
    #[must_use]
    pub fn encoding(&self) -> formats::EncodeOptions {
        formats::EncodeOptions {
            threads: self.threads,
            without_labels: false,
        }
    }
}

/// Reads the command line of this process.
///
/// Prints and exits by itself for `--help` and `--version`, and with status 2 when the command
/// line makes no sense.
#[must_use]
pub fn parse() -> Command {
    if env::args_os().len() <= 1 {
        return Command::Host(HostOptions::default());
    }
    let flags = Flags::parse();
    Command::try_from(flags).unwrap_or_else(|error| {
        Flags::command()
            .error(ErrorKind::ValueValidation, error)
            .exit()
    })
}

#[derive(Debug, Parser)]
#[command(
    name = "agent",
    bin_name = "agent",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    override_usage = USAGE,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
struct Flags {
    #[command(subcommand)]
    subcommand: Option<Subcommand>,

    /// Process to sample
    #[arg(
        short,
        long,
        required_unless_present = "command",
        value_parser = clap::value_parser!(u32).range(1..=MAX_PID)
    )]
    pid: Option<u32>,

    /// Program to start and to sample until its end, and its arguments
    #[arg(last = true, conflicts_with = "pid")]
    command: Vec<OsString>,

    /// Sample the processes that it starts as well
    #[arg(short, long)]
    children: bool,

    /// For how long: 30, 500ms, 1m30s …; Ctrl-C ends it early [default: 10s, a program until its
    /// end]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Samples per second of CPU time
    #[arg(
        short,
        long,
        value_name = "HZ",
        default_value_t = 99,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    rate: u32,

    /// Where to write, - is standard output [default: agent-PID.pb.gz, numbered]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// pprof, folded or svg [default: as FILE ends, else pprof]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        hide_possible_values = true,
        value_parser = format_values()
    )]
    format: Option<Format>,

    /// Begin stacks with their thread (pprof always has it, as a label)
    #[arg(short, long)]
    threads: bool,

    /// Native and kernel frames between those of Python [default]
    #[arg(long, overrides_with = "no_native")]
    native: bool,

    /// Python frames alone
    #[arg(long)]
    no_native: bool,

    /// Only samples of threads that hold the GIL
    #[arg(short, long)]
    gil: bool,

    /// Only samples of the threads with this name or of the one with this id
    #[arg(long, value_name = "NAME|TID")]
    thread: Option<ThreadFilter>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Sample every process of this host all the time [default without any arguments]
    Run(HostFlags),
    /// List what `agent run` has kept, or merge it into one profile
    Report(ReportFlags),
    /// Say how a process is seen, and why it cannot be profiled if it cannot
    Doctor {
        /// Process to look at
        #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=MAX_PID))]
        pid: u32,
    },
}

const USAGE: &str = "\
agent
       agent run [OPTIONS]
       agent report [OPTIONS]
       agent [OPTIONS] --pid <PID>
       agent [OPTIONS] -- <COMMAND>...
       agent doctor --pid <PID>";

const ABOUT: &str = "\
See where the CPU time of Python programs, and of all others, goes.

Samples one process without stopping or changing it, shows its hottest functions and
writes a profile; or samples every process of a host, and keeps or pushes profiles.";

const EXAMPLES: &str = "\
Examples:
  agent --pid 1234                              10 s of process 1234 into agent-1234.pb.gz
  go tool pprof -http=: agent-1234.pb.gz        look at it in a browser
  agent --pid 1234 -o profile.svg               a flame graph
  agent --pid 1234 -d 1m -r 499 -o stacks.txt   folded stacks of a minute, more closely
  agent --pid 1234 -t -f folded -o - | flamegraph.pl --color=js > profile.svg
  agent --children -o tests.svg -- pytest -n 4  a program and all that it starts
  agent doctor --pid 1234                       why is there no profile of it?
  agent run --config /etc/agent/agent.yaml      every process, all the time
  agent report                                  what that has kept
  agent report --service web --from -2h -o web.svg
  agent run --exporters '{grafana: {type: pyroscope, url: http://pyroscope:4040}}'";

/// Why a command line cannot be carried out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum UsageError {
    #[error(
        "the ending of '{}' stands for no format: end it in {}, or name one with --format",
        path.display(),
        known_endings()
    )]
    UnknownEnding { path: PathBuf },
    #[error("standard output is the program's own: name a file for the profile with --output")]
    SharedOutput,
    #[error("--from is not earlier than --to")]
    NoTime,
}

impl TryFrom<Flags> for Command {
    type Error = UsageError;

    fn try_from(flags: Flags) -> Result<Self, UsageError> {
        match flags.subcommand {
            Some(Subcommand::Run(HostFlags(options))) => Ok(Self::Host(options)),
            Some(Subcommand::Report(flags)) => flags.try_into().map(Self::Report),
            Some(Subcommand::Doctor { pid }) => Ok(Self::Doctor { pid }),
            None => Options::try_from(flags).map(Self::Capture),
        }
    }
}

impl TryFrom<Flags> for Options {
    type Error = UsageError;

    fn try_from(flags: Flags) -> Result<Self, UsageError> {
        let mut command = flags.command.into_iter();
        let target = match (command.next(), flags.pid) {
            (Some(program), _) => Target::Program {
                program,
                arguments: command.collect(),
            },
            // One of the two is there, as clap has seen to.
            (None, pid) => Target::Process(pid.unwrap_or_default()),
        };
        let is_program = matches!(target, Target::Program { .. });
        let destination = flags.output.map_or(Destination::Unnamed, Destination::from);
        let format = choose_format(flags.format, &destination)?;
        if is_program && destination == Destination::StandardOutput {
            return Err(UsageError::SharedOutput);
        }
        let default_duration = (!is_program).then_some(DEFAULT_DURATION);
        Ok(Self {
            target,
            children: flags.children,
            duration: flags.duration.or(default_duration),
            rate: flags.rate,
            filter: Filter {
                gil_only: flags.gil,
                thread: flags.thread,
            },
            // Of both, the one that was given last is left.
            native: !flags.no_native,
            format,
            threads: flags.threads,
            destination,
        })
    }
}

/// What clap takes for a format.
fn format_values() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).unwrap_or(Format::Pprof))
}

/// The format that was asked for, or that the destination asks for.
fn choose_format(named: Option<Format>, to: &Destination) -> Result<Format, UsageError> {
    match (named, to) {
        (Some(format), _) => Ok(format),
        (None, Destination::File(path)) => {
            format_of(path).ok_or_else(|| UsageError::UnknownEnding { path: path.clone() })
        }
        (None, _) => Ok(Format::Pprof),
    }
}

/// The format that a path asks for.
fn format_of(path: &Path) -> Option<Format> {
    // The endings of devices and folders mean nothing; that a folder is no output is told later.
    let is_file = !path.starts_with("/dev") && !path.starts_with("/proc") && !path.is_dir();
    Format::from_path(path).or((!is_file).then_some(Format::Pprof))
}

/// A duration as people write it; a bare number is seconds.
fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let is_bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let duration = if is_bare {
        humantime::parse_duration(&format!("{text}s"))
    } else {
        humantime::parse_duration(text)
    };
    let duration = duration.map_err(|_| DurationError::Unreadable)?;
    if duration.is_zero() {
        return Err(DurationError::Zero);
    }
    if duration > MAX_DURATION {
        return Err(DurationError::TooLong);
    }
    Ok(duration)
}

/// Why a text is not a duration; clap prints the text itself in front.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum DurationError {
    #[error("write it as 30, 500ms, 10s or 1m30s")]
    Unreadable,
    #[error("it must be longer than nothing")]
    Zero,
    #[error("24h is the most")]
    TooLong,
}

/// For example `.pb.gz or .svg`.
fn known_endings() -> String {
    let mut list = String::new();
    for (index, format) in Format::ALL.into_iter().enumerate() {
        let dotted: Vec<_> = format
            .endings()
            .iter()
            .map(|ending| format!(".{ending}"))
            .collect();
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(list, "{comma}{} ({format})", dotted.join(" "));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Result<Options, String> {
        let arguments = ["agent"].into_iter().chain(arguments.split_whitespace());
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        Options::try_from(flags).map_err(|error| error.to_string())
    }

    #[test]
    fn clap_finds_no_fault_with_the_flags() {
        Flags::command().debug_assert();
    }

    #[test]
    fn a_process_is_all_that_is_needed() {
        assert_eq!(
            options("--pid 42"),
            Ok(Options {
                target: Target::Process(42),
                children: false,
                duration: Some(Duration::from_secs(10)),
                rate: 99,
                filter: Filter::default(),
                native: true,
                format: Format::Pprof,
                threads: false,
                destination: Destination::Unnamed,
            })
        );
    }

    #[test]
    fn everything_can_be_chosen() {
        assert_eq!(
            options("-p 42 -c -d 1m30s -r 499 -o x.pb.gz -f svg -t -g --no-native --thread main"),
            Ok(Options {
                target: Target::Process(42),
                children: true,
                duration: Some(Duration::from_secs(90)),
                rate: 499,
                filter: Filter {
                    gil_only: true,
                    thread: Some(ThreadFilter::Name("main".to_owned())),
                },
                native: false,
                format: Format::Svg,
                threads: true,
                destination: Destination::File("x.pb.gz".into()),
            })
        );
    }

    #[test]
    fn the_last_word_on_native_frames_counts() {
        let native = |arguments: &str| {
            let options = options(&format!("-p 1 {arguments}"));
            options.map(|options| options.native)
        };
        assert_eq!(native(""), Ok(true));
        assert_eq!(native("--native"), Ok(true));
        assert_eq!(native("--no-native"), Ok(false));
        assert_eq!(native("--no-native --native"), Ok(true));
        assert_eq!(native("--native --no-native"), Ok(false));
        assert_eq!(native("--no-native --native --no-native"), Ok(false));
    }

    #[test]
    fn a_program_has_the_rest_of_the_line() {
        let program = |arguments| options(arguments).map(|options| options.target);
        assert_eq!(
            program("-r 499 -- python3 -c pass --pid 7"),
            Ok(Target::Program {
                program: "python3".into(),
                arguments: ["-c", "pass", "--pid", "7"].map(Into::into).to_vec(),
            })
        );
        let duration = |arguments| options(arguments).map(|options| options.duration);
        assert_eq!(duration("-- true"), Ok(None));
        assert_eq!(duration("-d 5 -- true"), Ok(Some(Duration::from_secs(5))));
        assert!(options("--pid 1 -- true").is_err());
        assert!(options("python3 script.py").is_err());
        let error = options("-o - -- true").unwrap_err();
        assert!(
            error.contains("standard output is the program's own"),
            "{error}"
        );
    }

    #[test]
    fn the_doctor_wants_a_process_alone() {
        let doctor = |arguments: &str| {
            let arguments = ["agent", "doctor"].into_iter().chain(arguments.split(' '));
            let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
            Command::try_from(flags).map_err(|error| error.to_string())
        };
        assert_eq!(doctor("--pid 42"), Ok(Command::Doctor { pid: 42 }));
        assert!(doctor("--rate 10 --pid 42").is_err());
        assert!(doctor("").is_err());
    }

    #[test]
    fn the_agent_of_a_host_has_a_flag_for_each_key() {
        let line = "agent run -c a.yaml --log-level debug --rate 97 --check-config";
        let flags = Flags::try_parse_from(line.split(' ')).unwrap();
        let expected = HostOptions {
            config: Some("a.yaml".into()),
            check_config: true,
            keys: vec![("rate", "97".to_owned()), ("log_level", "debug".to_owned())],
        };
        assert_eq!(Command::try_from(flags), Ok(Command::Host(expected)));
        assert!(Flags::try_parse_from(["agent", "run", "--rates", "1"]).is_err());
    }

    #[test]
    fn the_ending_chooses_the_format() {
        let format = |arguments| options(arguments).map(|options| options.format);
        assert_eq!(format("-p 1 -o a.svg"), Ok(Format::Svg));
        assert_eq!(format("-p 1 -o a/b.folded"), Ok(Format::Folded));
        assert_eq!(format("-p 1 -o -"), Ok(Format::Pprof));
        assert_eq!(format("-p 1 -o /dev/null"), Ok(Format::Pprof));
        assert_eq!(format("-p 1 -o a.json -f folded"), Ok(Format::Folded));
    }

    #[test]
    fn an_unknown_ending_is_an_error_that_lists_the_known_ones() {
        assert_eq!(
            options("-p 1 -o a.json").unwrap_err(),
            "the ending of 'a.json' stands for no format: end it in .pb.gz .pb .pprof (pprof), \
             .folded .collapsed .txt (folded), .svg (svg), or name one with --format"
        );
        assert!(options("-p 1 -o svg").is_err());
    }

    #[test]
    fn a_dash_is_standard_output() {
        let destination = |path: &str| Destination::from(PathBuf::from(path));
        assert_eq!(destination("-"), Destination::StandardOutput);
        assert_eq!(destination("/dev/stdout"), Destination::StandardOutput);
        assert_eq!(
            destination("./-"),
            Destination::File(Path::new("./-").into())
        );
    }

    #[test]
    fn durations_are_what_people_write() {
        let millis = |text| parse_duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("10"), Ok(10_000));
        assert_eq!(millis("0.5"), Ok(500));
        assert_eq!(millis("10s"), Ok(10_000));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1.5h"), Ok(5_400_000));
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("24h"), Ok(86_400_000));
    }

    #[test]
    fn durations_have_bounds() {
        for zero in ["0", "0s", "0.0", "0ms"] {
            assert_eq!(parse_duration(zero), Err(DurationError::Zero), "{zero}");
        }
        for long in ["24h1ns", "86401", "2days"] {
            assert_eq!(parse_duration(long), Err(DurationError::TooLong), "{long}");
        }
        for text in ["", ".", "10x", "s", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(
                parse_duration(text),
                Err(DurationError::Unreadable),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_have_bounds() {
        for bad in [
            "--pid 0",
            "--pid -1",
            "--pid 4194305",
            "--pid x",
            "--pid 1 --rate 0",
            "--pid 1 --rate 10001",
            "--pid 1 --format html",
            "--pid 1 --flame",
            "--pid 1 2",
            "",
        ] {
            assert!(options(bad).is_err(), "{bad}");
        }
        assert!(options("--pid 4194304 --rate 10000").is_ok());
    }

    #[test]
    fn a_number_out_of_bounds_is_told_the_bounds() {
        let error = options("--pid 1 --rate 0").unwrap_err();
        assert!(error.contains("0 is not in 1..=10000"), "{error}");
    }
}
