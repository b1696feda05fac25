//! The command line of what the agent of a host has kept.

use std::{path::PathBuf, time::SystemTime};

use clap::Args;

use super::{Destination, UsageError, choose_format, format_values};
use crate::{
    formats::{self, Format},
    store::Selection,
};

/// What to show of what was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// The folder, if it is not the one that profiles are kept in when nothing is said.
    pub folder: Option<PathBuf>,
    /// Which profiles.
    pub selection: Selection,
    /// What to merge them into; without it they are listed.
    pub output: Option<ReportOutput>,
}

/// What to merge profiles into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOutput {
    /// Where to write it.
    pub destination: Destination,
    /// What to write.
    pub format: Format,
    /// Whether stacks begin with the thread where the format leaves the choice.
    pub threads: bool,
}

impl ReportOutput {
    /// What an encoder wants to know of these options.
    #[must_use]
    pub fn encoding(&self) -> formats::EncodeOptions {
        formats::EncodeOptions {
            threads: self.threads,
            without_labels: false,
        }
    }
}

/// The flags.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFlags {
    /// Only profiles of this service
    #[arg(short, long, value_name = "NAME")]
    service: Option<String>,

    /// Only windows that begin then or later: '2 hours ago', -2h, 2026-11-21T15:20:00Z (UTC) …
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    from: Option<SystemTime>,

    /// Only windows that begin earlier
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    to: Option<SystemTime>,

    /// Only profiles with this label; of several, with all
    #[arg(short, long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Where profiles are kept [default: where `agent run` does]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Merge them into this file, - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Its format, as for one process [default: as FILE ends]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        requires = "output",
        hide_possible_values = true,
        value_parser = format_values()
    )]
    format: Option<Format>,

    /// Begin stacks with their thread, if threads were kept (`threads: true`)
    #[arg(short, long, requires = "output")]
    threads: bool,
}

impl TryFrom<ReportFlags> for ReportOptions {
    type Error = UsageError;

    fn try_from(flags: ReportFlags) -> Result<Self, UsageError> {
        if let (Some(from), Some(to)) = (flags.from, flags.to)
            && from >= to
        {
            return Err(UsageError::NoTime);
        }
        let output = flags.output.map(|path| {
            let destination = Destination::from(path);
            Ok(ReportOutput {
                format: choose_format(flags.format, &destination)?,
                destination,
                threads: flags.threads,
            })
        });
        Ok(Self {
            folder: flags.folder,
            selection: Selection {
                service: flags.service,
                labels: flags.labels,
                from: flags.from,
                to: flags.to,
            },
            output: output.transpose()?,
        })
    }
}

/// Why a text is not a moment or a label; clap prints the text itself in front.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Unreadable {
    #[error("write it as '2 hours ago', -2h, 2026-11-21 or 2026-11-21T15:20:00Z")]
    Moment,
    #[error("write it as NAME=VALUE")]
    Label,
}

/// A moment as people write it.
fn moment(text: &str) -> Result<SystemTime, Unreadable> {
    let now = SystemTime::now();
    let text = text.trim();
    let unreadable = Unreadable::Moment;
    if text == "now" {
        return Ok(now);
    }
    let ago = text.strip_suffix("ago").or_else(|| text.strip_prefix('-'));
    if let Ok(ago) = humantime::parse_duration(ago.unwrap_or(text).trim()) {
        return now.checked_sub(ago).ok_or(unreadable);
    }
    let is_day = text.len() == "2026-11-21".len();
    let midnight = if is_day { "T00:00:00Z" } else { "" };
    humantime::parse_rfc3339_weak(&format!("{text}{midnight}")).map_err(|_| unreadable)
}

fn label(text: &str) -> Result<(String, String), Unreadable> {
    let label = text.split_once('=').filter(|(name, _)| !name.is_empty());
    label
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or(Unreadable::Label)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

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
        ];
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = ReportOptions {
            folder: Some("/srv".into()),
            selection: Selection {
                service: Some("web".to_owned()),
                labels: vec![pair("pod", "a=b"), pair("node", "")],
                from: at(1_795_219_200),
                to: at(1_795_274_419),
            },
            output: Some(ReportOutput {
                destination: Destination::File("x.svg".into()),
                format: Format::Svg,
                threads: true,
            }),
        };
        assert_eq!(options(&line), Ok(expected));
    }

    #[test]
    fn a_moment_is_what_people_write() {
        let ago = |text| {
            let before = SystemTime::now();
            let moment = moment(text).unwrap();
            before.duration_since(moment).unwrap_or_default().as_secs()
        };
        for text in ["-2h", "2h", "2 hours ago", "120min ago", "-1h60m"] {
            // The clock may be between two seconds.
            assert!((7_199..=7_200).contains(&ago(text)), "{text}");
        }
        assert_eq!(ago("now"), 0);
        let exact = |text| moment(text).unwrap();
        assert_eq!(exact("2026-11-21T15:20:19Z"), exact("2026-11-21 15:20:19"));
        for text in ["", "yesterday", "-", "15:20", "2026-13-01", "20261121", "5"] {
            assert_eq!(moment(text), Err(Unreadable::Moment), "{text}");
        }
        assert!(moment("999999999999 years ago").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let error = options(&["--from", "-1h", "--to", "-2h"]).unwrap_err();
        assert_eq!(error, "--from is not earlier than --to");
        assert!(options(&["-f", "svg"]).unwrap_err().contains("--output"));
        let error = options(&["-o", "x.json"]).unwrap_err();
        assert!(error.contains("stands for no format"), "{error}");
        for label in ["pod", "=x"] {
            let error = options(&["--label", label]).unwrap_err();
            assert!(error.contains("NAME=VALUE"), "{error}");
        }
    }
}
