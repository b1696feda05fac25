//! Flags of `agent report`.

use std::{path::PathBuf, time::SystemTime};

use clap::{ArgGroup, Args};

use super::{
    options::{DiffOptions, ReportOptions, ReportView, UsageError},
    outputs,
    percent::Percent,
    values,
};
use crate::{
    formats::{EncodeOptions, Format, FunctionNames},
    profile::Kind,
    store::Selection,
};

/// Most rows.
const MAX_LINES: i64 = 10_000;

/// Group of what shows or writes a profile instead of a list.
const SHOWN: &str = "shown";

/// Group of what shows one in the terminal.
const VIEW: &str = "view";

/// The flags.
#[derive(Clone, Debug, Args)]
#[command(
    group(ArgGroup::new(SHOWN).args(["files", "output", "top", "tree"]).multiple(true)),
    group(ArgGroup::new(VIEW).args(["files", "top", "tree"]).multiple(true))
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct ReportFlags {
    /// pprof files, also of other tools, and folders of them, shown merged [default: a list of the
    /// folder of `agent run`]
    #[arg(value_name = "FILE", conflicts_with = "folder")]
    files: Vec<PathBuf>,

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

    /// Values of this type, of files of other tools that have several, such as `inuse_space` [default: that which
    /// the file names, else the last]
    #[arg(long, value_name = "TYPE", help_heading = "Selection")]
    sample_type: Option<String>,

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
        conflicts_with_all = ["folder", "output", "files", "top", "tree"],
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

    /// Functions by their own time, with totals [default for FILE]
    #[arg(long, conflicts_with = "output", help_heading = "Terminal")]
    top: bool,

    /// The calls as a tree; → has all the time of the row above it
    #[arg(long, conflicts_with = "output", help_heading = "Terminal")]
    tree: bool,

    /// Rows of the table and of the tree [default: 20 and 100]
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        requires = VIEW,
        help_heading = "Terminal",
        value_parser = clap::value_parser!(u32).range(1..=MAX_LINES)
    )]
    lines: Option<u32>,

    /// Leave out of the tree what is less than this part of all
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "1%",
        requires = "tree",
        help_heading = "Terminal"
    )]
    min_share: Percent,

    /// Merge them into this file, - for standard output; may be repeated
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Vec<PathBuf>,

    /// pprof, folded, svg, speedscope, callgrind, cpuprofile or jsonl [default: by the extension of FILE, else
    /// pprof]. Of several files: one for each, in their order, or for each whose extension says none
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        help_heading = "Output",
        requires = "output",
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
        requires = "output",
        hide_possible_values = true,
        value_parser = values::function_names()
    )]
    function_names: FunctionNames,

    /// Frames of the interpreter by which it runs functions too [default: in pprof, folded, callgrind and jsonl]
    #[arg(
        long,
        overrides_with = "no_internals",
        help_heading = "Output",
        requires = SHOWN
    )]
    internals: bool,

    /// No such frames [default: in svg, speedscope, cpuprofile and the terminal]
    #[arg(long, help_heading = "Output", requires = SHOWN)]
    no_internals: bool,

    /// Lines of a function as one frame, with its first line
    #[arg(
        short = 'F',
        long,
        conflicts_with = "nolineno",
        requires = "output",
        help_heading = "Output"
    )]
    function: bool,

    /// No line numbers
    #[arg(long, requires = SHOWN, help_heading = "Output")]
    nolineno: bool,

    /// Whole paths in the names of frames, also in formats that have them elsewhere, and in the terminal
    #[arg(long, requires = SHOWN, help_heading = "Output")]
    full_filenames: bool,

    /// Begin each stack with its thread, if profiles have it (`thread_labels`)
    #[arg(short, long, help_heading = "Output", requires = "output")]
    threads: bool,
}

impl ReportFlags {
    /// Refuses what is about two profiles where two are not compared: clap does not where it could not be added to the
    /// other arguments, such as names of files.
    fn check_comparison(&self) -> Result<(), UsageError> {
        let flags = [
            (self.fail_above.is_some(), "--fail-above"),
            (self.normalize, "--normalize"),
        ];
        match flags.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, flag)) if self.diff.is_empty() => Err(UsageError::NoComparison { flag }),
            _ => Ok(()),
        }
    }
}

impl TryFrom<ReportFlags> for ReportOptions {
    type Error = UsageError;

    fn try_from(flags: ReportFlags) -> Result<Self, UsageError> {
        if let (Some(from), Some(to)) = (flags.from, flags.to)
            && from >= to
        {
            return Err(UsageError::EmptyRange);
        }
        flags.check_comparison()?;
        let internals = values::internals(flags.internals, flags.no_internals);
        let is_shown =
            flags.output.is_empty() && (flags.top || flags.tree || !flags.files.is_empty());
        let view = is_shown.then(|| ReportView {
            table: flags.top || !flags.tree,
            tree: flags.tree,
            lines: flags.lines.and_then(|lines| usize::try_from(lines).ok()),
            min_share: flags.min_share,
        });
        let outputs = match &*flags.output {
            [] => Vec::new(),
            _ => outputs::of_stored(flags.output, flags.format)?,
        };
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
            files: flags.files,
            sample_type: flags.sample_type,
            outputs,
            encoding: EncodeOptions {
                threads: flags.threads,
                function_names: flags.function_names,
                internals,
                line_numbers: values::line_numbers(flags.function, flags.nolineno),
                full_file_names: flags.full_filenames,
                ..EncodeOptions::default()
            },
            view,
            diff,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::{
        commands::{output::Destination, outputs::WantedOutput},
        formats::Internals,
    };

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
            outputs: vec![WantedOutput {
                destination: Destination::File("x.svg".into()),
                format: Format::Svg,
            }],
            encoding: EncodeOptions {
                threads: true,
                function_names: FunctionNames::Module,
                internals: Internals::Hidden,
                ..EncodeOptions::default()
            },
            ..ReportOptions::default()
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
    fn files_are_shown_in_the_terminal_or_converted() {
        let view = |table, tree| ReportView {
            table,
            tree,
            lines: None,
            min_share: "1%".parse().unwrap(),
        };
        let shown = |line: &[&str]| options(line).unwrap().view;
        assert_eq!(shown(&["a.pb.gz", "b"]), Some(view(true, false)));
        assert_eq!(shown(&["--top"]), Some(view(true, false)));
        assert_eq!(shown(&["a.pb.gz", "--tree"]), Some(view(false, true)));
        assert_eq!(shown(&["--tree", "--top"]), Some(view(true, true)));
        let line = "a.pb.gz --tree -n 5 --min-share 0.5% --internals --sample-type cpu";
        let chosen = options(&line.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(chosen.files, [PathBuf::from("a.pb.gz")]);
        assert_eq!(chosen.sample_type.as_deref(), Some("cpu"));
        assert_eq!(chosen.encoding.internals, Internals::Shown);
        let expected = ReportView {
            lines: Some(5),
            min_share: "0.5%".parse().unwrap(),
            ..view(false, true)
        };
        assert_eq!(chosen.view, Some(expected));
        let converted = options(&["a.pb.gz", "-o", "a.svg"]).unwrap();
        assert_eq!(converted.view, None);
        assert_eq!(converted.outputs[0].format, Format::Svg);
    }

    #[test]
    fn what_is_not_valid_is_refused() {
        for line in [
            &["--diff", "a"][..],
            &["--diff", "a", "b", "-o", "x.svg"],
            &["--fail-above", "5%"],
            &["a", "--diff", "a", "b"],
            &["a", "--folder", "b"],
            &["a", "-o", "x.svg", "--tree"],
            &["--internals"],
            &["--nolineno"],
            &["a", "--function"],
            &["a", "-o", "a.svg", "--function", "--nolineno"],
            &["-n", "5"],
            &["a", "-n", "0"],
            &["a", "--min-share", "5%"],
            &["--diff", "a", "b", "--fail-above", "-1"],
        ] {
            assert!(options(line).is_err(), "{line:?}");
        }
        let error = options(&["--from", "-1h", "--to", "-2h"]).unwrap_err();
        assert_eq!(error, "--from must be earlier than --to");
        for line in [
            &["a", "--fail-above", "5%"][..],
            &["--top", "--fail-above", "5%"],
            &["--folder", "a", "--fail-above", "5%"],
            &["a", "--normalize"],
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains("--diff BEFORE AFTER"), "{line:?}: {error}");
        }
        assert!(options(&["-f", "svg"]).unwrap_err().contains("--output"));
        let error = options(&["-o", "x.json"]).unwrap_err();
        assert!(error.contains("no format has the extension"), "{error}");
        for line in [&["-o", "x.trace.json"][..], &["-o", "-", "-f", "firefox"]] {
            let error = options(line).unwrap_err();
            assert!(error.contains("stored profiles do not say when"), "{error}");
        }
        for label in ["pod", "=x"] {
            let error = options(&["--label", label]).unwrap_err();
            assert!(error.contains("NAME=VALUE"), "{error}");
        }
    }
}
