//! Exceptions: how many were raised, by class and place.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, Period, Probed, Source, Unit, Words};

/// Which exceptions are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedExceptions {
    /// Those that are no control flow.
    #[default]
    Errors,
    /// Those too by which iterators, generators and tasks end.
    All,
}

impl RecordedExceptions {
    /// Of an option that asks for all.
    #[must_use]
    pub fn of_option(all: bool) -> Self {
        if all { Self::All } else { Self::Errors }
    }
}

/// Exceptions that Python code has raised or let through for the first time. One that C code raises and clears itself
/// is none, and neither is one that is raised again.
pub static KIND: Kind = Kind::of_values(
    ProfileKind::EXCEPTIONS,
    "exceptions",
    ("exceptions", "exception"),
    Unit::Events,
    (Source::Probe(Probed::Exceptions), Period::Events(1)),
    Words {
        total: "exceptions",
        any: "raised any exception",
        none: "raised no exception",
    },
);
