//! Filters of samples, and the error of a filter that matches no thread.

use std::{convert::Infallible, fmt, str::FromStr};

use crate::profile::Kind;

/// Threads that an error lists.
const MOST_LISTED: usize = 20;

/// Which samples a profile includes; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only samples of threads that held the GIL or, in a build without one, were attached to the
    /// interpreter.
    pub gil_only: bool,
    /// Only samples of matching threads.
    pub thread: Option<ThreadFilter>,
    /// Samples of threads that wait for work too.
    pub idle: bool,
}

impl Filter {
    /// Whether the thread filter matches.
    pub(super) fn includes_thread(&self, tid: u32, name: &str) -> bool {
        self.thread
            .as_ref()
            .is_none_or(|wanted| wanted.matches(tid, name))
    }
}

/// Which threads a profile includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadFilter {
    /// The thread with this id in the agent's PID namespace.
    Tid(u32),
    /// Threads whose last known name is exactly this.
    Name(String),
}

impl ThreadFilter {
    /// Whether it matches a thread.
    #[must_use]
    pub fn matches(&self, tid: u32, name: &str) -> bool {
        match self {
            Self::Tid(wanted) => *wanted == tid,
            Self::Name(wanted) => wanted == name,
        }
    }
}

impl FromStr for ThreadFilter {
    type Err = Infallible;

    /// Parses a number as an id, anything else as a name.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text
            .parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Tid))
    }
}

impl fmt::Display for ThreadFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tid(tid) => write!(formatter, "with the id {tid}"),
            Self::Name(name) => write!(formatter, "named `{name}`"),
        }
    }
}

/// A thread that was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledThread {
    /// The id of its process, in the agent's PID namespace.
    pub tgid: u32,
    /// Its id in the agent's PID namespace.
    pub tid: u32,
    /// Its last name, empty if it is not known.
    pub name: String,
    /// Its samples.
    pub samples: u64,
}

impl fmt::Display for SampledThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            return write!(formatter, "{}", self.tid);
        }
        write!(formatter, "{} ({})", self.name, self.tid)
    }
}

/// No sample is of a thread that the filter includes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no thread {wanted} {}; choose one of those that did: {}", .kind.words.any, Listed(.seen))]
pub struct NoSuchThread {
    /// What was sampled.
    pub kind: &'static Kind,
    /// The filter.
    pub wanted: ThreadFilter,
    /// The threads that were sampled, the one with the most samples first.
    pub seen: Vec<SampledThread>,
}

/// Displays the first threads of a list and the number of the others.
struct Listed<'a>(&'a [SampledThread]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, thread) in self.0.iter().take(MOST_LISTED).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{thread}")?;
        }
        match self.0.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}
