//! Flags of `agent top`.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{
    options::{TopOptions, UsageError},
    record::MAX_RATE,
    target::{GROUP, TargetFlags},
    values,
};
use crate::{
    commands::top::choices::{Event, Sort, View},
    targets::selection::ProcessSelection,
};

/// Shortest and longest time between two refreshes.
const DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(600)];

/// The flags.
#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct TopFlags {
    #[command(flatten)]
    processes: TargetFlags,

    /// Their descendants too
    #[arg(short, long, requires = GROUP, help_heading = "Target")]
    children: bool,

    /// Samples per second of CPU time
    #[arg(
        short,
        long,
        value_name = "HZ",
        default_value_t = 100,
        help_heading = "Sampling",
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    rate: u32,

    /// Native and kernel frames too [default]
    #[arg(long, overrides_with = "no_native", help_heading = "Sampling")]
    native: bool,

    /// Python frames only
    #[arg(long, help_heading = "Sampling")]
    no_native: bool,

    /// Trace context switches too, so that waits of any length are exact; of processes that are chosen
    #[arg(long, help_heading = "Sampling")]
    trace_switches: bool,

    /// Time that functions and lines begin with: cpu or wall; of this host,
    /// wall samples what its processes wait for too
    #[arg(
        short,
        long,
        value_name = "EVENT",
        default_value = name_of(&Event::NAMES),
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = one_of(Event::NAMES)
    )]
    event: Event,

    /// Table to begin with: functions, lines, threads, processes [default:
    /// functions, of a host processes]
    #[arg(
        long,
        value_name = "TABLE",
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = one_of(View::NAMES)
    )]
    table: Option<View>,

    /// Order to begin with: self, total, since-start
    #[arg(
        short,
        long,
        value_name = "COLUMN",
        default_value = name_of(&Sort::NAMES),
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = one_of(Sort::NAMES)
    )]
    sort: Sort,

    /// Time between two refreshes: 1, 500ms, 10s
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "1s",
        help_heading = "Output",
        value_parser = values::duration
    )]
    delay: Duration,

    /// Print tables as plain text [default if standard output is no terminal]
    #[arg(short, long, help_heading = "Output")]
    batch: bool,

    /// End after so many refreshes
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        help_heading = "Output",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    iterations: Option<u64>,
}

/// The first name, which is the default.
fn name_of<T: Copy>(names: &[(T, &'static str)]) -> &'static str {
    names.first().map_or("", |(_, name)| name)
}

/// One of these names.
fn one_of<T: Copy + Default + Send + Sync + 'static, const N: usize>(
    names: [(T, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names.map(|(_, name)| name)).map(move |chosen| {
        let found = names.iter().find(|(_, name)| *name == chosen);
        found.map(|(value, _)| *value).unwrap_or_default()
    })
}

impl TryFrom<TopFlags> for TopOptions {
    type Error = UsageError;

    fn try_from(flags: TopFlags) -> Result<Self, UsageError> {
        let [shortest, longest] = DELAYS;
        if !(shortest..=longest).contains(&flags.delay) {
            return Err(UsageError::Delay);
        }
        let processes = flags.processes.chosen();
        if processes.is_none() && flags.trace_switches {
            return Err(UsageError::SwitchesOfHost);
        }
        let is_one = processes.as_ref().is_some_and(ProcessSelection::is_one);
        if is_one && !flags.children && flags.table == Some(View::Processes) {
            return Err(UsageError::OneProcess);
        }
        let default_table = if processes.is_some() {
            View::Functions
        } else {
            View::Processes
        };
        Ok(Self {
            processes,
            children: flags.children,
            rate: flags.rate,
            // Of both, clap keeps the last one.
            native: !flags.no_native,
            trace_switches: flags.trace_switches,
            event: flags.event,
            view: flags.table.unwrap_or(default_table),
            sort: flags.sort,
            delay: flags.delay,
            batch: flags.batch,
            iterations: flags.iterations,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        top: TopFlags,
    }

    fn options(line: &str) -> Result<TopOptions, String> {
        let arguments = ["agent"].into_iter().chain(line.split_whitespace());
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        flags
            .top
            .try_into()
            .map_err(|error: UsageError| error.to_string())
    }

    #[test]
    fn a_host_begins_with_its_processes_and_a_process_with_its_functions() {
        let host = options("").unwrap();
        assert_eq!(
            (host.view, host.rate, host.native),
            (View::Processes, 100, true)
        );
        let one = options("-p 7 -c -b -n 3 -d 5 --no-native -s total -e wall").unwrap();
        let expected = TopOptions {
            processes: Some(ProcessSelection {
                pids: vec![7],
                ..ProcessSelection::default()
            }),
            children: true,
            rate: 100,
            native: false,
            trace_switches: false,
            event: Event::Wall,
            view: View::Functions,
            sort: Sort::Total,
            delay: Duration::from_secs(5),
            batch: true,
            iterations: Some(3),
        };
        assert_eq!(one, expected);
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for line in [
            "-d 0.05",
            "-d 11m",
            "--trace-switches",
            "-p 7 --table processes",
            "-c",
            "-n 0",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
        assert!(options("-e wall").is_ok());
        assert!(options("-p 7 -c --table processes").is_ok());
        assert!(options("-p 7,8 --table processes").is_ok());
        assert!(options("-p 7,7 --table processes").is_err());
    }
}
