//! Reads the comments of a pprof file.

use std::collections::BTreeMap;

use crate::{
    formats::{
        losses,
        pprof::names::{EVENT, LABEL, PERIOD_NS, PROCESS, PROCESSES},
    },
    profile::{FilteredOut, Losses, Process},
};

/// Most labels of a series, and most bytes of one; the agent writes fewer and shorter ones.
const MAX_LABELS: (usize, usize) = (64, 8 << 10);

/// Content of the comments of a file.
#[derive(Debug, Default)]
pub(super) struct Comments {
    /// Labels of the series.
    pub(super) labels: BTreeMap<String, String>,
    /// The name of the kind, where the types of the values do not tell it.
    pub(super) event: Option<String>,
    /// The period in nanoseconds, where that of the file is another.
    pub(super) period: Option<u64>,
    /// Processes with a comment of their own.
    pub(super) processes: Vec<Process>,
    /// Whether there are more processes.
    pub(super) has_more_processes: bool,
    /// Samples excluded by a filter.
    pub(super) filtered_out: FilteredOut,
    /// Losses.
    pub(super) losses: Losses,
}

impl Comments {
    /// Adds the content of a comment; other comments are ignored.
    pub(super) fn add(&mut self, comment: &str) {
        let label = comment.strip_prefix(LABEL);
        if let Some((name, value)) = label.and_then(|label| label.split_once('=')) {
            if self.labels.len() < MAX_LABELS.0 && comment.len() <= MAX_LABELS.1 {
                self.labels.insert(name.to_owned(), value.to_owned());
            }
        } else if let Some(period) = comment.strip_prefix(PERIOD_NS) {
            self.period = period.parse().ok();
        } else if let Some(event) = comment.strip_prefix(EVENT) {
            self.event = Some(event.to_owned());
        } else if let Some(process) = process(comment) {
            self.processes.push(process);
        } else if comment.starts_with("and ") && comment.contains(" more process") {
            self.has_more_processes = true;
        } else {
            losses::read(comment, &mut self.filtered_out, &mut self.losses);
        }
    }
}

/// Parses `process 42 (name), runtime` or `processes (service), runtime`; the runtime is optional.
fn process(comment: &str) -> Option<Process> {
    let (pid, rest) = if let Some(rest) = comment.strip_prefix(PROCESSES) {
        (0, rest)
    } else {
        let (pid, rest) = comment.strip_prefix(PROCESS)?.split_once(' ')?;
        (pid.parse().ok()?, rest)
    };
    let rest = rest.strip_prefix('(')?;
    let (name, runtime) = match rest.rsplit_once("), ") {
        Some(parts) => parts,
        None => (rest.strip_suffix(')')?, ""),
    };
    Some(Process {
        pid,
        name: name.to_owned(),
        is_python: !runtime.is_empty(),
        runtime: runtime.to_owned(),
        ..Process::default()
    })
}
