//! Flags of `agent report`.

use std::{path::PathBuf, time::SystemTime};

use clap::Args;

use super::{
    options::{DiffOptions, ReportOptions, ReportOutput, UsageError},
    percent::Percent,
    values,
};
use crate::{
    commands::output::Destination,
    formats::{Format, FunctionNames},
    profile::Kind,
    store::Selection,
};

/// The flags.
#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct ReportFlags {
    /// Only profiles of this service
    #[arg(short, long, value_name = "NAME", help_heading = "Selection")]
    service: Option<String>,

    /// Only profiles of this event [default: a list has all, a merged profile cpu]
    #[arg(
        short,
        long,
        value_name = "EVENT",
        help_heading = "Selection",
        value_parser = values::event()
    )]
    event: Option<&'static Kind>,

    /// Only windows that begin at this time or later: '2 hours ago', -2h, 2026-11-21,
    /// 2026-11-21T15:20:00Z (UTC)
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Selection",
        allow_hyphen_values = true,
        value_parser = values::time
    )]
    from: Option<SystemTime>,

    /// Only windows that begin earlier
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Selection",
        allow_hyphen_values = true,
        value_parser = values::time
    )]
    to: Option<SystemTime>,

    /// Only profiles with this label; may be repeated, then all must match
    #[arg(
        short,
        long = "label",
        value_name = "NAME=VALUE",
        help_heading = "Selection",
        value_parser = values::label
    )]
    labels: Vec<(String, String)>,

    /// Folder of the profiles [default: that of `agent run`]
    #[arg(long, value_name = "DIR", help_heading = "Selection")]
    folder: Option<PathBuf>,

    /// Compare two profiles instead: files, or folders of which the selected profiles are merged
    #[arg(
        long,
        num_args = 2,
        value_names = ["BEFORE", "AFTER"],
        conflicts_with_all = ["folder", "output"],
        help_heading = "Comparison"
    )]
    diff: Vec<PathBuf>,

    /// Scale the first profile to the total of the second
    #[arg(long, requires = "diff", help_heading = "Comparison")]
    normalize: bool,

    /// Exit with status 3 if the total or a function grew by more than this part of all, and by more
    /// than chance
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "diff",
        help_heading = "Comparison"
    )]
    fail_above: Option<Percent>,

    /// Merge them into this file, - for standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,

    /// pprof, folded, svg, speedscope, callgrind or cpuprofile [default: by the extension of FILE, else
    /// pprof]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        help_heading = "Output",
        requires = "output",
        hide_possible_values = true,
        value_parser = values::format()
    )]
    format: Option<Format>,

    /// How Python functions are named: plain, as in Worker.run, or module, as in
    /// shop.orders.Worker.run
    #[arg(
        long,
        value_name = "NAMES",
        default_value = FunctionNames::Plain.name(),
        help_heading = "Output",
        requires = "output",
        hide_possible_values = true,
        value_parser = values::function_names()
    )]
    function_names: FunctionNames,

    /// Frames of the interpreter by which it runs functions too [default: in pprof, folded and callgrind]
    #[arg(
        long,
        overrides_with = "no_internals",
        help_heading = "Output",
        requires = "output"
    )]
    internals: bool,

    /// No such frames [default: in svg, speedscope, cpuprofile and the summary]
    #[arg(long, help_heading = "Output", requires = "output")]
    no_internals: bool,

    /// Begin each stack with its thread, if profiles have it (`thread_labels`)
    #[arg(short, long, help_heading = "Output", requires = "output")]
    threads: bool,
}

impl TryFrom<ReportFlags> for ReportOptions {
    type Error = UsageError;

    fn try_from(flags: ReportFlags) -> Result<Self, UsageError> {
        if let (Some(from), Some(to)) = (flags.from, flags.to)
            && from >= to
        {
            return Err(UsageError::EmptyRange);
        }
        let output = flags.output.map(|path| {
            let destination = Destination::from(path);
            Ok(ReportOutput {
                format: values::format_of(flags.format, &destination)?,
                destination,
                threads: flags.threads,
                function_names: flags.function_names,
                internals: values::internals(flags.internals, flags.no_internals),
            })
        });
        let diff = match <[PathBuf; 2]>::try_from(flags.diff) {
            Ok([before, after]) => Some(DiffOptions {
                before,
                after,
                normalize: flags.normalize,
                fail_above: flags.fail_above,
            }),
            Err(_) => None,
        };
        Ok(Self {
            folder: flags.folder,
            selection: Selection {
                service: flags.service,
                kind: flags.event,
                labels: flags.labels,
                from: flags.from,
                to: flags.to,
            },
            output: output.transpose()?,
            diff,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::formats::Internals;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: ReportFlags,
    }

    fn options(arguments: &[&str]) -> Result<ReportOptions, String> {
        let line = Line::try_parse_from(["report"].iter().chain(arguments));
        let flags = line.map_err(|error| error.to_string())?.flags;
        ReportOptions::try_from(flags).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_everything() {
        assert_eq!(options(&[]), Ok(ReportOptions::default()));
    }

    #[test]
    fn everything_can_be_chosen() {
        let line = [
            "--service",
            "web",
            "--from",
            "2026-11-21",
            "--to",
            "2026-11-21 15:20:19",
            "--label",
            "pod=a=b",
            "-l",
            "node=",
            "--folder",
            "/srv",
            "-o",
            "x.svg",
            "-t",
            "--function-names",
            "module",
            "--no-internals",
        ];
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = ReportOptions {
            folder: Some("/srv".into()),
            selection: Selection {
                service: Some("web".to_owned()),
                kind: None,
                labels: vec![pair("pod", "a=b"), pair("node", "")],
                from: at(1_795_219_200),
                to: at(1_795_274_419),
            },
            output: Some(ReportOutput {
                destination: Destination::File("x.svg".into()),
                format: Format::Svg,
                threads: true,
                function_names: FunctionNames::Module,
                internals: Internals::Hidden,
            }),
            diff: None,
        };
        assert_eq!(options(&line), Ok(expected));
    }

    #[test]
    fn two_profiles_are_compared() {
        let line = [
            "--diff",
            "a.pb.gz",
            "b",
            "--fail-above",
            "0.5%",
            "-e",
            "wall",
        ];
        let options = options(&line).unwrap();
        let diff = options.diff.unwrap();
        assert_eq!((diff.before, diff.after), ("a.pb.gz".into(), "b".into()));
        assert_eq!(diff.fail_above.unwrap().to_string(), "0.5 %");
        assert_eq!(options.selection.kind.unwrap().name, "wall");
    }

    #[test]
    fn what_is_not_valid_is_refused() {
        for line in [
            &["--diff", "a"][..],
            &["--diff", "a", "b", "-o", "x.svg"],
            &["--fail-above", "5%"],
            &["--diff", "a", "b", "--fail-above", "-1"],
        ] {
            assert!(options(line).is_err(), "{line:?}");
        }
        let error = options(&["--from", "-1h", "--to", "-2h"]).unwrap_err();
        assert_eq!(error, "--from must be earlier than --to");
        assert!(options(&["-f", "svg"]).unwrap_err().contains("--output"));
        let error = options(&["-o", "x.json"]).unwrap_err();
        assert!(error.contains("no format has the extension"), "{error}");
        for label in ["pod", "=x"] {
            let error = options(&["--label", label]).unwrap_err();
            assert!(error.contains("NAME=VALUE"), "{error}");
        }
    }
}
