//! Flags of `agent report`.

#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::SystemTime};

use clap::Args;

use super::{
    effect::{self, Subject, Use},
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

// What flags are about that not all reports have.

const TYPES: Subject = Subject {
    about: "files of other tools",
    advice: "name such files",
};
const CHANGES: Subject = Subject {
    about: "what has changed",
    advice: "name two profiles with --diff BEFORE AFTER",
};
const ROWS: Subject = Subject {
    about: "rows in the terminal",
    advice: "ask for them with --top or --tree",
};
const TREE: Subject = Subject {
    about: "the tree of calls",
    advice: "ask for it with --tree",
};
const FILES: Subject = Subject {
    about: "files that are written",
    advice: "name one with --output FILE",
};
const FUNCTIONS: Subject = Subject {
    about: "functions, which a list of profiles does not have",
    advice: "ask for them with --top, --tree or --output FILE",
};
const LINES: Subject = Subject {
    about: "lines of functions, which lists and comparisons do not have",
    advice: "ask for functions with --top, --tree or --output FILE",
};
const FRAMES: Subject = Subject {
    about: "frames in files, as rows in the terminal are functions anyway",
    advice: "name a file with --output FILE",
};
const STACKS: Subject = Subject {
    about: "whole stacks",
    advice: "ask for them with --tree or --output FILE",
};

/// The flags.
#[derive(Clone, Debug, Args)]
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
    #[arg(long, help_heading = "Comparison")]
    normalize: bool,

    /// Exit with status 3 if the total or a function grew by more than this part of all, and by more
    /// than chance
    #[arg(long, value_name = "PERCENT", help_heading = "Comparison")]
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
        help_heading = "Terminal",
        value_parser = clap::value_parser!(u32).range(1..=MAX_LINES)
    )]
    lines: Option<u32>,

    /// Leave out of the tree what is less than this part of all [default: 1%]
    #[arg(long, value_name = "PERCENT", help_heading = "Terminal")]
    min_share: Option<Percent>,

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
        hide_possible_values = true,
        value_parser = values::format()
    )]
    format: Vec<Format>,

    /// How Python functions are named: plain, as in Worker.run, or module, as in
    /// shop.orders.Worker.run [default: plain]
    #[arg(
        long,
        value_name = "NAMES",
        help_heading = "Output",
        hide_possible_values = true,
        value_parser = values::function_names()
    )]
    function_names: Option<FunctionNames>,

    /// Frames of the interpreter by which it runs functions too [default: in pprof, folded, callgrind and jsonl]
    #[arg(long, overrides_with = "no_internals", help_heading = "Output")]
    internals: bool,

    /// No such frames [default: in svg, speedscope, cpuprofile and the terminal]
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

    /// No line numbers
    #[arg(long, help_heading = "Output")]
    nolineno: bool,

    /// Whole paths in the names of frames, also in formats that have them elsewhere, and in the terminal
    #[arg(long, help_heading = "Output")]
    full_filenames: bool,

    /// Begin each stack with its thread, in the tree too, if profiles have it (`thread_labels`)
    #[arg(short, long, help_heading = "Output")]
    threads: bool,
}

impl ReportFlags {
    /// Whether two profiles are compared.
    fn is_compared(&self) -> bool {
        !self.diff.is_empty()
    }

    /// Whether a profile is shown in the terminal.
    fn is_shown(&self) -> bool {
        let is_asked_for = self.top || self.tree || !self.files.is_empty();
        is_asked_for && self.output.is_empty() && !self.is_compared()
    }

    /// What becomes of flags that not all reports have a use for. clap does not require what conflicts with other
    /// arguments.
    fn uses(&self) -> [Use; 9] {
        let (is_compared, is_shown) = (self.is_compared(), self.is_shown());
        let is_written = !self.output.is_empty();
        let has_functions = is_compared || is_shown || is_written;
        let has_tree = is_shown && self.tree;
        [
            Use::of(&TYPES, is_compared || !self.files.is_empty())
                .flag("--sample-type", self.sample_type.is_some()),
            Use::of(&CHANGES, is_compared)
                .flag("--normalize", self.normalize)
                .flag("--fail-above", self.fail_above.is_some()),
            Use::of(&ROWS, is_shown || is_compared).flag("--lines", self.lines.is_some()),
            Use::of(&TREE, has_tree).flag("--min-share", self.min_share.is_some()),
            Use::of(&FILES, is_written).flag("--format", !self.format.is_empty()),
            Use::of(&FUNCTIONS, has_functions)
                .flag("--function-names", self.function_names.is_some())
                .flag("--internals", self.internals)
                .flag("--no-internals", self.no_internals)
                .flag("--full-filenames", self.full_filenames),
            Use::of(&FRAMES, is_written).flag("--function", self.function),
            Use::of(&LINES, is_shown || is_written).flag("--nolineno", self.nolineno),
            Use::of(&STACKS, has_tree || is_written).flag("--threads", self.threads),
        ]
    }

    /// How functions are named and shown.
    fn encoding(&self) -> EncodeOptions {
        EncodeOptions {
            threads: self.threads,
            function_names: self.function_names.unwrap_or_default(),
            internals: values::internals(self.internals, self.no_internals),
            line_numbers: values::line_numbers(self.function, self.nolineno),
            full_file_names: self.full_filenames,
            ..EncodeOptions::default()
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
        effect::check(flags.uses())?;
        let encoding = flags.encoding();
        let lines = flags.lines.and_then(|lines| usize::try_from(lines).ok());
        let view = flags.is_shown().then(|| ReportView {
            table: flags.top || !flags.tree,
            tree: flags.tree,
            lines,
            min_share: flags.min_share.unwrap_or(Percent::ONE),
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
                lines,
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
            encoding,
            view,
            diff,
        })
    }
}
