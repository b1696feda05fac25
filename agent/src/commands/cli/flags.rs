//! The command `agent` with its subcommands, and its help.

use std::{env, path::PathBuf, time::Duration};

use clap::{CommandFactory as _, Parser, error::ErrorKind};
use clap_complete::Shell;

use super::{
    dump::DumpFlags,
    options::{Command, DoctorOptions, RunOptions, UsageError, WaitOptions},
    record::{MAX_RATE, RecordFlags},
    report::ReportFlags,
    run::RunFlags,
    suggest,
    target::TargetFlags,
    top::TopFlags,
    values,
};

/// Width of the help, in columns.
const HELP_WIDTH: usize = 80;

/// Parses the command line of this process.
///
/// Prints and exits for `--help` and `--version`, and with status 2 when the command line is not
/// valid.
#[must_use]
pub fn parse() -> Command {
    if env::args_os().len() <= 1 {
        return Command::Run(RunOptions::default());
    }
    let flags = Flags::try_parse().unwrap_or_else(|error| {
        let first = env::args().nth(1);
        suggest::with_command(error, &Flags::command(), first.as_deref()).exit()
    });
    Command::try_from(flags).unwrap_or_else(|error| {
        Flags::command()
            .error(ErrorKind::ValueValidation, error)
            .exit()
    })
}

/// Whether these arguments, after the name of the program, are a command line, as far as they alone show.
///
/// # Errors
///
/// What is wrong, as the user is told it.
#[cfg(feature = "testing")]
pub fn check(arguments: &[String]) -> Result<(), String> {
    let line = ["agent"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str));
    let flags = Flags::try_parse_from(line).map_err(|error| error.to_string())?;
    Command::try_from(flags)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The command line as clap has it, with its help.
pub(super) fn command() -> clap::Command {
    Flags::command()
}

#[derive(Debug, Parser)]
#[command(
    name = "agent",
    bin_name = "agent",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    override_usage = USAGE,
    term_width = HELP_WIDTH,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Flags {
    #[command(subcommand)]
    subcommand: Option<Subcommand>,

    #[command(flatten)]
    record: RecordFlags,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Sample every process of this host [default without arguments]
    #[command(after_help = RUN_EXAMPLES, override_usage = "agent run [OPTIONS]")]
    Run(RunFlags),
    /// Sample processes or a program and write a profile [default with --pid or --]
    #[command(
        after_help = RECORD_EXAMPLES,
        override_usage = "agent record [OPTIONS] --pid <PID>\n       \
                          agent record [OPTIONS] -- <COMMAND>..."
    )]
    Record(Box<RecordFlags>),
    /// List the profiles that `agent run` has stored; show or convert those, or files
    #[command(after_help = REPORT_EXAMPLES, override_usage = "agent report [OPTIONS] [FILE]...")]
    Report(ReportFlags),
    /// Show live where the time of a process, or of this host, goes
    #[command(after_help = TOP_EXAMPLES, override_usage = "agent top [OPTIONS] [--pid <PID>]")]
    Top(TopFlags),
    /// Show which threads of a process hold the GIL, and which wait for it and where
    #[command(after_help = GIL_EXAMPLES, override_usage = "agent gil [OPTIONS] --pid <PID>")]
    Gil(WaitFlags),
    /// Show for which locks the threads of a process wait, where, and who
    /// releases them
    #[command(after_help = LOCK_EXAMPLES, override_usage = "agent lock [OPTIONS] --pid <PID>")]
    Lock(WaitFlags),
    /// Show the stack of every thread of a process, now, and what each waits for
    #[command(after_help = DUMP_EXAMPLES, override_usage = "agent dump [OPTIONS] --pid <PID>")]
    Dump(DumpFlags),
    /// Examine a process, or this host: can it be profiled, and if not, why
    #[command(after_help = DOCTOR_EXAMPLES, override_usage = "agent doctor [OPTIONS] [--pid <PID>]")]
    Doctor {
        #[command(flatten)]
        process: TargetFlags,
        /// Configuration of this host's `agent run`, for what that leaves out
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Print the completions of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, in roff
    #[command(after_help = MAN_EXAMPLES)]
    Man,
}

/// Options of commands that sample what the threads of a process wait for.
#[derive(Debug, clap::Args)]
struct WaitFlags {
    #[command(flatten)]
    process: TargetFlags,
    /// Time to sample: 30, 500ms, 1m30s; Ctrl-C ends it early
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    duration: Duration,
    /// Samples per second of the time of each thread
    #[arg(
        short,
        long,
        value_name = "HZ",
        default_value_t = 99,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    rate: u32,
}

impl TryFrom<WaitFlags> for WaitOptions {
    type Error = UsageError;

    fn try_from(flags: WaitFlags) -> Result<Self, UsageError> {
        Ok(Self {
            process: flags.process.required()?,
            duration: flags.duration,
            rate: flags.rate,
        })
    }
}

const USAGE: &str = "\
agent
       agent run [OPTIONS]
       agent report [OPTIONS] [FILE]...
       agent [OPTIONS] --pid <PID>
       agent [OPTIONS] -- <COMMAND>...
       agent top [--pid <PID>]
       agent gil --pid <PID>
       agent lock --pid <PID>
       agent dump --pid <PID>
       agent doctor [--pid <PID>]";

const ABOUT: &str = "\
Shows where the CPU time of Python programs, and of all others, goes.

Samples one process without stopping or changing it, prints its hottest
functions and writes a profile; or samples every process of a host, and stores
or pushes profiles.";

const EXAMPLES: &str = "\
Examples:
  Record 10 s of process 1234 into agent-1234.pb.gz, and browse it
    agent --pid 1234
    go tool pprof -http=: agent-1234.pb.gz

  A flame graph; folded stacks of a minute at a higher rate
    agent --pid 1234 -o profile.svg
    agent --pid 1234 -d 1m -r 499 -o stacks.txt
    agent --pid 1234 -o profile.speedscope.json  # for speedscope.app

  Several processes, in one profile
    agent --pid 1234,1235 -o both.svg
    agent --name 'gunicorn*' -o web.svg
    agent --unit web.service --children -o web.svg

  Several formats of the same capture
    agent --pid 1234 -o profile.pb.gz -o profile.svg

  A program and all that it starts
    agent --children -o tests.svg -- pytest -n 4

  Live, as top does
    agent top --pid 1234

  Every process of this host, all the time; what it has stored
    agent run --config /etc/agent/agent.yaml
    agent report --service web --from -2h -o web.svg";

const RECORD_EXAMPLES: &str = "\
The word may be left out: `agent --pid 1234` is `agent record --pid 1234`.

Examples:
  agent record --pid 1234 -o profile.svg
  agent record --name worker.py --container 3f2c -o workers.svg
  agent record --pid 1234 --event cpu,wall -d 1m
  agent record --children -o tests.pb.gz -- pytest -n 4";

const RUN_EXAMPLES: &str = "\
Each key of the configuration file is also an option here and an environment
variable: log_level is --log-level and AGENT_LOG_LEVEL. Options override
variables, variables override the file. Lists and maps are written as in YAML.

Examples:
  agent run --config /etc/agent/agent.yaml
  agent run --config /etc/agent/agent.yaml --check-config
  agent run --no-native --per-process --include '[{command: gunicorn}]'
  agent run --exporters '{local: {type: file, folder: /srv/profiles}}'";

const REPORT_EXAMPLES: &str = "\
Examples:
  agent report
  agent report --service web --from -2h -o web.svg
  agent report --from '3 hours ago' --to '2 hours ago' -o before.pb.gz
  agent report --label namespace=shop -o - -f folded

  Files, also of other tools: functions, calls, other formats
    agent report agent-1234.pb.gz
    agent report --tree --min-share 5% before.pb.gz after.pb.gz
    agent report --sample-type alloc_space heap.pb.gz -o heap.svg

  The same of what is stored
    agent report --service web --from -2h --top --tree

  What has changed, for a person and for CI
    agent report --diff before.pb.gz after.pb.gz
    agent report --diff main.pb.gz branch.pb.gz --fail-above 5%";

const TOP_EXAMPLES: &str = "\
Shares are those of the last 10 s. Enter opens a row: the functions of a process
or a thread, the callers and callees of a function. ? lists all keys.

Examples:
  agent top
  agent top --pid 1234
  agent top --pid 1234 --no-native --table lines

  What the threads of a process that is slow wait for
    agent top --pid 1234 --event wall

  One table of 5 s as plain text
    agent top -b -n 1 -d 5 --pid 1234";

const GIL_EXAMPLES: &str = "\
The table goes to standard output. Of a hold or wait the longest is counted in
samples: the thread may have let go between two of them.

Examples:
  agent gil --pid 1234
  agent gil --pid 1234 -d 1m -r 499

  The same as a flame graph: whom each stack with the GIL keeps waiting
    agent --pid 1234 --event gil -o gil.svg";

const LOCK_EXAMPLES: &str = "\
The table goes to standard output. A lock has the name of a variable that refers
to it, if one was found in the functions that wait or their modules, and its
class and address. Below it are the functions that wait for it, and those that
end the waits, each with how long threads waited.

Examples:
  agent lock --pid 1234
  agent lock --pid 1234 -d 1m -r 499

  The same as flame graphs: where threads wait for locks, and where these
  are released
    agent --pid 1234 --event lock,lock-release -o lock.svg";

const DUMP_EXAMPLES: &str = "\
The process is not stopped. A thread that does not run has the stack that it had
from before until after it was read; one that runs is sampled in its own
context; no two stacks are of the same instant. A thread whose stack could not
be proved in time has none.

Examples:
  agent dump --pid 1234
  agent dump --pid 1234 --no-native
  agent dump --pid 1234 --children --json

  Down to the kernel, with the interpreter's own functions
    agent dump --pid 1234 --kernel --internals";

const DOCTOR_EXAMPLES: &str = "\
Exits with 0 if the process, or without one this host, can be profiled, else
with 1. For a host it lists which events it has, and why not others.

Examples:
  agent doctor
  agent doctor --pid 1234";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  agent completions bash > /etc/bash_completion.d/agent
  agent completions zsh > /usr/local/share/zsh/site-functions/_agent
  agent completions fish > ~/.config/fish/completions/agent.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  agent man | man -l -
  agent man > /usr/local/share/man/man1/agent.1";

impl TryFrom<Flags> for Command {
    type Error = UsageError;

    fn try_from(flags: Flags) -> Result<Self, UsageError> {
        match flags.subcommand {
            Some(Subcommand::Run(RunFlags(options))) => Ok(Self::Run(options)),
            Some(Subcommand::Record(flags)) => (*flags).try_into().map(Self::Record),
            Some(Subcommand::Report(flags)) => flags.try_into().map(Self::Report),
            Some(Subcommand::Top(flags)) => flags.try_into().map(Self::Top),
            Some(Subcommand::Gil(flags)) => flags.try_into().map(Self::Gil),
            Some(Subcommand::Lock(flags)) => flags.try_into().map(Self::Lock),
            Some(Subcommand::Dump(flags)) => flags.try_into().map(Self::Dump),
            Some(Subcommand::Doctor { process, config }) => Ok(Self::Doctor(DoctorOptions {
                process: process.chosen(),
                config,
            })),
            Some(Subcommand::Completions { shell }) => Ok(Self::Completions(shell)),
            Some(Subcommand::Man) => Ok(Self::Man),
            None => flags.record.try_into().map(Self::Record),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        num::NonZeroU32,
        path::{Path, PathBuf},
        time::Duration,
    };

    use clap::CommandFactory as _;

    use super::*;
    use crate::{
        aggregate::{Filter, ThreadFilter},
        commands::{
            cli::options::{RecordOptions, Target},
            output::Destination,
            outputs::WantedOutput,
        },
        config::KEYS,
        formats::{EncodeOptions, Format, FunctionNames, Internals},
        profile::{CPU, LineNumbers, RecordedExceptions},
        targets::selection::ProcessSelection,
    };

    fn options(arguments: &str) -> Result<RecordOptions, String> {
        let arguments = ["agent"].into_iter().chain(arguments.split_whitespace());
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        RecordOptions::try_from(flags.record).map_err(|error| error.to_string())
    }

    fn by_pid(pid: u32) -> ProcessSelection {
        ProcessSelection {
            pids: vec![pid],
            ..ProcessSelection::default()
        }
    }

    #[test]
    fn clap_finds_no_fault_with_the_flags() {
        Flags::command().debug_assert();
    }

    #[test]
    fn a_process_is_all_that_is_needed() {
        assert_eq!(
            options("--pid 42"),
            Ok(RecordOptions {
                target: Target::Processes(by_pid(42)),
                children: false,
                duration: Some(Duration::from_secs(10)),
                kinds: vec![&CPU],
                rate: 99,
                wait_rate: None,
                filter: Filter::default(),
                exceptions: RecordedExceptions::Errors,
                native: true,
                outputs: vec![WantedOutput {
                    destination: Destination::Unnamed,
                    format: Format::Pprof,
                }],
                encoding: EncodeOptions::default(),
            })
        );
    }

    #[test]
    fn the_name_of_the_command_may_be_left_out() {
        let command = |line: &str| {
            let flags =
                Flags::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
            Command::try_from(flags).map_err(|error| error.to_string())
        };
        for options in ["-p 42 -o x.svg", "--subprocesses -d 1m -- python3 x.py"] {
            let named = command(&format!("agent record {options}"));
            assert_eq!(named, command(&format!("agent {options}")));
            assert!(matches!(named, Ok(Command::Record(_))), "{named:?}");
        }
        assert!(command("agent record").unwrap_err().contains("--pid"));
    }

    #[test]
    fn everything_can_be_chosen() {
        assert_eq!(
            options(
                "-p 42 -c -d 1m30s -r 499 --wait-rate 20 -o x.pb.gz -f svg -t -g --no-native --idle --all-exceptions --thread main \
                 --function-names module --internals"
            ),
            Ok(RecordOptions {
                target: Target::Processes(by_pid(42)),
                children: true,
                duration: Some(Duration::from_secs(90)),
                kinds: vec![&CPU],
                rate: 499,
                wait_rate: NonZeroU32::new(20),
                filter: Filter {
                    gil_only: true,
                    thread: Some(ThreadFilter::Name("main".to_owned())),
                    idle: true,
                },
                exceptions: RecordedExceptions::All,
                native: false,
                outputs: vec![WantedOutput {
                    destination: Destination::File("x.pb.gz".into()),
                    format: Format::Svg,
                }],
                encoding: EncodeOptions {
                    threads: true,
                    function_names: FunctionNames::Module,
                    internals: Internals::Shown,
                    ..EncodeOptions::default()
                },
            })
        );
    }

    #[test]
    fn the_last_word_on_internals_counts() {
        let internals = |arguments: &str| {
            let options = options(&format!("-p 1 {arguments}"));
            options.map(|options| options.encoding.internals)
        };
        assert_eq!(internals("--internals"), Ok(Internals::Shown));
        assert_eq!(internals("--no-internals"), Ok(Internals::Hidden));
        assert_eq!(
            internals("--no-internals --internals"),
            Ok(Internals::Shown)
        );
        assert_eq!(
            internals("--internals --no-internals"),
            Ok(Internals::Hidden)
        );
    }

    #[test]
    fn frames_have_lines_of_their_functions_or_none() {
        let encoding = |arguments: &str| {
            let options = options(&format!("-p 1 {arguments}"));
            options.map(|options| options.encoding)
        };
        let with = |line_numbers, full_file_names| {
            Ok(EncodeOptions {
                line_numbers,
                full_file_names,
                ..EncodeOptions::default()
            })
        };
        assert_eq!(encoding(""), with(LineNumbers::Current, false));
        assert_eq!(encoding("-F"), with(LineNumbers::First, false));
        assert_eq!(encoding("--function"), with(LineNumbers::First, false));
        assert_eq!(
            encoding("--nolineno --full-filenames"),
            with(LineNumbers::Hidden, true)
        );
        let error = encoding("--nolineno --function").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
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
                user: None,
            })
        );
        let user = |arguments| match options(arguments).map(|options| options.target) {
            Ok(Target::Program { user, .. }) => user.map(|user| (user.user, user.group)),
            _ => None,
        };
        assert_eq!(user("--user 12:34 -- true"), Some((12, 34)));
        assert!(options("--user 12:34 --pid 1").is_err());
        assert!(options("--user 12:x -- true").is_err());
        let duration = |arguments| options(arguments).map(|options| options.duration);
        assert_eq!(duration("-- true"), Ok(None));
        assert_eq!(duration("-d 5 -- true"), Ok(Some(Duration::from_secs(5))));
        assert!(options("--pid 1 -- true").is_err());
        assert!(options("python3 script.py").is_err());
        let error = options("-o - -- true").unwrap_err();
        assert!(
            error.contains("standard output belongs to the program"),
            "{error}"
        );
    }

    #[test]
    fn the_doctor_examines_a_process_or_the_host() {
        let doctor = |arguments: &str| {
            let arguments = ["agent", "doctor"].into_iter().chain(arguments.split(' '));
            let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
            Command::try_from(flags).map_err(|error| error.to_string())
        };
        let options = |config| {
            Ok(Command::Doctor(DoctorOptions {
                process: Some(by_pid(42)),
                config,
            }))
        };
        assert_eq!(doctor("--pid 42"), options(None));
        let file = PathBuf::from("agent.yaml");
        assert_eq!(doctor("--pid 42 -c agent.yaml"), options(Some(file)));
        assert!(doctor("--rate 10 --pid 42").is_err());
        let host = DoctorOptions {
            process: None,
            config: Some("agent.yaml".into()),
        };
        assert_eq!(doctor("-c agent.yaml"), Ok(Command::Doctor(host)));
    }

    fn run(line: &str) -> Result<RunOptions, String> {
        let arguments = ["agent", "run"].into_iter().chain(line.split_whitespace());
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        match Command::try_from(flags) {
            Ok(Command::Run(options)) => Ok(options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn each_key_of_the_configuration_is_a_flag() {
        assert_eq!(
            run("-c a.yaml --log-level debug --rate 97 --check-config"),
            Ok(RunOptions {
                config: Some("a.yaml".into()),
                check_config: true,
                keys: vec![("rate", "97".to_owned()), ("log_level", "debug".to_owned())],
            })
        );
        assert!(run("--rates 1").is_err());
    }

    #[test]
    fn a_switch_takes_no_value_and_has_an_opposite() {
        let keys = |line| run(line).map(|options| options.keys);
        let one = |key, value: &str| Ok(vec![(key, value.to_owned())]);
        assert_eq!(keys("--per-process"), one("per_process", "true"));
        assert_eq!(keys("--no-per-process"), one("per_process", "false"));
        assert_eq!(keys("--no-native"), one("native", "false"));
        assert_eq!(keys("--native"), one("native", "true"));
        assert_eq!(keys("--native --no-native"), one("native", "false"));
        assert_eq!(keys("--no-native --native"), one("native", "true"));
        assert!(run("--per-process true").is_err());
    }

    #[test]
    fn help_is_grouped_and_fits_80_columns() {
        let mut command = Flags::command();
        command.build();
        let names: Vec<_> = command
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        let mut helps = vec![command.render_long_help().to_string()];
        for name in names {
            if let Some(command) = command.find_subcommand_mut(&name) {
                helps.push(command.render_long_help().to_string());
                helps.push(command.render_help().to_string());
            }
        }
        for line in helps.iter().flat_map(|help| help.lines()) {
            assert!(line.chars().count() <= HELP_WIDTH, "{line}");
        }
        let groups: Vec<_> = KEYS.iter().map(|key| key.group).collect();
        assert!(
            groups
                .iter()
                .all(|group| helps.concat().contains(&format!("{group}:")))
        );
    }

    #[test]
    fn the_ending_chooses_the_format() {
        let format = |arguments| options(arguments).map(|options| options.outputs[0].format);
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
            "no format has the extension of 'a.json': use .pb.gz .pb .pprof (pprof), .folded \
             .collapsed .txt (folded), .svg (svg), .speedscope.json (speedscope), \
             .callgrind (callgrind), .cpuprofile (cpuprofile), .trace.json (chrome), .firefox.json (firefox), .perf \
             .linux-perf.txt (perf-script), .jsonl (jsonl), or choose a format with --format"
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
