//! Why a folder has nothing to show, and what it has instead.

use std::{
    fmt::Write as _,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use super::skipped::SkipReason;
use crate::{profile::Kind, text::printable};

/// Most entries of a list in a message.
pub(super) const MAX_LISTED: usize = 20;

/// Why a folder has nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder has no profiles.
    #[error(
        "there are no profiles in '{}': `agent run` writes them there if no exporter is configured; \
         name another folder with --folder",
        path.display()
    )]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be read.
    #[error(
        "cannot read the folder '{}' ({source}): run as the user that the agent runs as, or name \
         another folder with --folder",
        path.display()
    )]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Error of the operation.
        source: io::Error,
    },
    /// No profile is of the service.
    #[error(
        "there is no service '{}' in '{}': the services are {}",
        printable(service),
        path.display(),
        listed(known)
    )]
    NoService {
        /// The service.
        service: String,
        /// The folder.
        path: PathBuf,
        /// The services of the folder.
        known: Vec<String>,
    },
    /// No window starts in the time range.
    #[error(
        "no window starts in that time: the first starts at {}, the last at {}",
        moment(times.0),
        moment(times.1)
    )]
    NoWindow {
        /// Start of the first and of the last window.
        times: (SystemTime, SystemTime),
    },
    /// No profile is of the kind.
    #[error(
        "no profile is of the event {}: choose one of those that were sampled with --event: {}",
        kind.name,
        listed(known)
    )]
    NoKind {
        /// The kind.
        kind: &'static Kind,
        /// The kinds of the selected profiles.
        known: Vec<String>,
    },
    /// No profile has the labels.
    #[error("no profile has {}: {}", pairs(wanted), values(known))]
    NoLabel {
        /// The labels.
        wanted: Vec<(String, String)>,
        /// The values that each label has.
        known: Vec<(String, Vec<String>)>,
    },
    /// All selected files are invalid.
    #[error("no profile of '{}' can be read{}", path.display(), for_example(first.as_ref()))]
    NothingReadable {
        /// The folder.
        path: PathBuf,
        /// The first file, and why it was skipped.
        first: Option<(String, SkipReason)>,
    },
}

/// A time in the format of `--from` and `--to`, in whole seconds.
pub(super) fn moment(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    // The format ends with the year 9999.
    let since = since
        .unwrap_or_default()
        .min(Duration::from_secs(253_402_300_799));
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}

fn listed(names: &[String]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().take(MAX_LISTED).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{}", printable(name));
    }
    match names.len().saturating_sub(MAX_LISTED) {
        0 if text.is_empty() => text.push_str("none"),
        0 => {}
        _ => text.push_str(", …"),
    }
    text
}

fn pairs(labels: &[(String, String)]) -> String {
    let pairs = labels.iter();
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{}={}", printable(name), printable(value)))
        .collect();
    pairs.join(" and ")
}

fn values(known: &[(String, Vec<String>)]) -> String {
    let labels = known.iter().map(|(name, values)| {
        let name = printable(name);
        if values.is_empty() {
            format!("none has a label {name}")
        } else {
            format!("{name} is {}", listed(values))
        }
    });
    labels.collect::<Vec<_>>().join("; ")
}

fn for_example(first: Option<&(String, SkipReason)>) -> String {
    first.map_or_else(String::new, |(name, why)| {
        format!(", such as {name}: {why}")
    })
}
