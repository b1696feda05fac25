//! The command `agent` with its subcommands, and its help.

#[cfg(test)]
mod tests;

use std::{env, path::PathBuf};

use clap::{CommandFactory as _, Parser, error::ErrorKind};
use clap_complete::Shell;

use super::{
    dump::DumpFlags,
    help,
    options::{Command, DoctorOptions, RunOptions, UsageError},
    record::RecordFlags,
    report::ReportFlags,
    run::RunFlags,
    suggest,
    target::TargetFlags,
    top::TopFlags,
    wait::WaitFlags,
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
    about = help::ABOUT,
    after_help = help::EXAMPLES,
    override_usage = help::USAGE,
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
    #[command(after_help = help::RUN_EXAMPLES, override_usage = "agent run [OPTIONS]")]
    Run(RunFlags),
    /// Sample processes or a program and write a profile [default with --pid or --]
    #[command(
        after_help = help::RECORD_EXAMPLES,
        override_usage = "agent record [OPTIONS] --pid <PID>\n       \
                          agent record [OPTIONS] -- <COMMAND>..."
    )]
    Record(Box<RecordFlags>),
    /// List the profiles that `agent run` has stored; show or convert those, or files
    #[command(after_help = help::REPORT_EXAMPLES, override_usage = "agent report [OPTIONS] [FILE]...")]
    Report(ReportFlags),
    /// Show live where the time of a process, or of this host, goes
    #[command(after_help = help::TOP_EXAMPLES, override_usage = "agent top [OPTIONS] [--pid <PID>]")]
    Top(TopFlags),
    /// Show which threads of a process hold the GIL, and which wait for it and where
    #[command(after_help = help::GIL_EXAMPLES, override_usage = "agent gil [OPTIONS] --pid <PID>")]
    Gil(WaitFlags),
    /// Show for which locks the threads of a process wait, where, and who
    /// releases them
    #[command(after_help = help::LOCK_EXAMPLES, override_usage = "agent lock [OPTIONS] --pid <PID>")]
    Lock(WaitFlags),
    /// Show the stack of every thread of a process, now, or of a core dump, and what
    /// each waits for
    #[command(after_help = help::DUMP_EXAMPLES, override_usage = "agent dump [OPTIONS] --pid <PID>\n       agent dump [OPTIONS] --core <FILE>")]
    Dump(DumpFlags),
    /// Examine a process, or this host: can it be profiled, and if not, why
    #[command(after_help = help::DOCTOR_EXAMPLES, override_usage = "agent doctor [OPTIONS] [--pid <PID>]")]
    Doctor {
        #[command(flatten)]
        process: TargetFlags,
        /// Configuration of this host's `agent run`, for what that leaves out
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Print the completions of a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, in roff
    #[command(after_help = help::MAN_EXAMPLES)]
    Man,
}

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
            Some(Subcommand::Dump(flags)) => flags.try_into(),
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
