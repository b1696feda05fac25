//! Why there is nothing to show, and what there is.

use std::{
    fmt::Write as _,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use super::skipped::SkipReason;
use crate::text::printable;

/// Things that a list names.
pub(super) const MAX_LISTED: usize = 20;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There are no profiles.
    #[error(
        "there are no profiles in '{}': `agent run` keeps them there when no exporter is named; \
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
        /// What the kernel said.
        source: io::Error,
    },
    /// No file is of the service.
    #[error(
        "there is no service '{}' in '{}': there is {}",
        printable(service),
        path.display(),
        listed(known)
    )]
    NoService {
        /// The service.
        service: String,
        /// The folder.
        path: PathBuf,
        /// Those that there are.
        known: Vec<String>,
    },
    /// No window begins in the time.
    #[error(
        "no window begins then: the first begins at {}, the last at {}",
        moment(times.0),
        moment(times.1)
    )]
    NoWindow {
        /// When the first and the last one begin.
        times: (SystemTime, SystemTime),
    },
    /// No file has the labels.
    #[error("no profile has {}: {}", pairs(wanted), values(known))]
    NoLabel {
        /// The labels.
        wanted: Vec<(String, String)>,
        /// The values that each has.
        known: Vec<(String, Vec<String>)>,
    },
    /// All files that were chosen are broken.
    #[error("no profile of '{}' can be read{}", path.display(), for_example(first.as_ref()))]
    NothingReadable {
        /// The folder.
        path: PathBuf,
        /// The first of them, and what is wrong with it.
        first: Option<(String, SkipReason)>,
    },
}

/// A moment as `--from` and `--to` take it, in whole seconds.
pub(super) fn moment(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    // What is later than the year 9999 has no such text.
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
