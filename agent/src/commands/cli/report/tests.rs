//! Command lines of `agent report`, and what becomes of them.

use std::time::Duration;

use clap::{Arg, CommandFactory as _, Parser};

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

/// A command line for each thing that a report can be, by a letter: a **l**ist, a **f**ile, a table of the **t**op, a
/// t**r**ee, **b**oth, an **o**utput, a **c**onverted file, a **d**ifference.
const REPORTS: [(char, &str); 8] = [
    ('l', ""),
    ('f', "a.pb.gz"),
    ('t', "--top"),
    ('r', "--tree"),
    ('b', "a.pb.gz --top --tree"),
    ('o', "-o x.svg"),
    ('c', "a.pb.gz -o x.svg"),
    ('d', "--diff a b"),
];

/// Each flag, and for which of these it has an effect.
const REPORT_FLAGS: [(&str, &str); 24] = [
    ("b.pb.gz", "lftrboc"),
    ("--service web", "lftrbocd"),
    ("--event wall", "lftrbocd"),
    ("--sample-type cpu", "fbcd"),
    ("--from 2026-11-21", "lftrbocd"),
    ("--to 2026-11-21", "lftrbocd"),
    ("--label pod=web", "lftrbocd"),
    ("--folder /srv", "ltro"),
    ("--diff c d", "l"),
    ("--normalize", "d"),
    ("--fail-above 5%", "d"),
    ("--top", "lfr"),
    ("--tree", "lft"),
    ("--lines 7", "ftrbd"),
    ("--min-share 5%", "rb"),
    ("--output y.svg", "lfoc"),
    ("--format folded", "oc"),
    ("--function-names module", "ftrbocd"),
    ("--internals", "ftrbocd"),
    ("--no-internals", "ftrbocd"),
    ("--function", "oc"),
    ("--nolineno", "ftrboc"),
    ("--full-filenames", "ftrbocd"),
    ("--threads", "rboc"),
];

#[test]
fn no_flag_of_a_report_is_ignored() {
    for (report, line) in REPORTS {
        let of = |line: &str| options(&line.split_whitespace().collect::<Vec<_>>());
        let without = of(line).unwrap();
        for (flag, reports) in REPORT_FLAGS {
            // What is there already is another matter.
            if line.contains(flag.split(' ').next().unwrap()) {
                continue;
            }
            let has_effect = reports.contains(report);
            match of(&format!("{line} {flag}")) {
                Ok(with) => {
                    assert!(has_effect, "{line} {flag}");
                    // What a file is by default.
                    let is_default = (report, flag) == ('f', "--top");
                    assert_eq!(with == without, is_default, "{line} {flag}");
                }
                Err(error) => {
                    assert!(!has_effect, "{line}: {error}");
                    let is_explained = error.contains(", or leave it out");
                    let is_conflict = error.contains("cannot be used with");
                    assert!(is_explained || is_conflict, "{line}: {error}");
                }
            }
        }
    }
}

#[test]
fn every_flag_of_a_report_is_in_the_table() {
    let command = Line::command();
    let flags = command.get_arguments().filter_map(Arg::get_long);
    for flag in flags {
        let mut known = REPORT_FLAGS.iter();
        let name = |line: &'static str| line.split(' ').next().unwrap_or(line);
        let is_known = known.any(|(line, _)| name(line).strip_prefix("--") == Some(flag));
        assert!(is_known, "{flag}");
    }
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
        &["--top", "--function"],
        &["a", "-o", "x.svg", "-n", "5"],
        &["--diff", "a", "b", "--min-share", "5%"],
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
