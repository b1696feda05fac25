//! Flags that say which processes a command is about.

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{options::UsageError, values};
use crate::targets::selection::{Criterion, ProcessSelection};

/// The group of these flags.
pub(super) const GROUP: &str = "processes";

/// The flags.
#[derive(Clone, Debug, Args)]
#[group(id = GROUP, multiple = true)]
pub(super) struct TargetFlags {
    /// Process by its id; several as in 1,2 or repeated
    #[arg(
        short,
        long,
        value_delimiter = ',',
        help_heading = "Target",
        value_parser = values::pid
    )]
    pid: Vec<u32>,

    /// Processes with this name, script or module; * and ? match any text and any letter
    #[arg(long, value_name = "PATTERN", help_heading = "Target", value_parser = NonEmptyStringValueParser::new())]
    name: Vec<String>,

    /// Processes of this systemd unit
    #[arg(long, value_name = "UNIT", help_heading = "Target", value_parser = NonEmptyStringValueParser::new())]
    unit: Vec<String>,

    /// Processes of the container whose id begins so
    #[arg(long, value_name = "ID", help_heading = "Target", value_parser = NonEmptyStringValueParser::new())]
    container: Vec<String>,

    /// Processes of this pod: its name, NAMESPACE/NAME or its UID
    #[arg(long, value_name = "POD", help_heading = "Target", value_parser = NonEmptyStringValueParser::new())]
    pod: Vec<String>,

    /// Processes of this control group and those below it
    #[arg(long, value_name = "PATH", help_heading = "Target", value_parser = NonEmptyStringValueParser::new())]
    cgroup: Vec<String>,
}

impl TargetFlags {
    /// The processes, if any are chosen.
    pub(super) fn chosen(self) -> Option<ProcessSelection> {
        Some(ProcessSelection::from(self)).filter(|selection| !selection.is_empty())
    }

    /// The processes, of which there must be one.
    pub(super) fn required(self) -> Result<ProcessSelection, UsageError> {
        self.chosen().ok_or(UsageError::NoProcess)
    }
}

impl From<TargetFlags> for ProcessSelection {
    fn from(flags: TargetFlags) -> Self {
        let of = |values: Vec<String>, kind: fn(String) -> Criterion| values.into_iter().map(kind);
        let criteria = of(flags.name, Criterion::Name)
            .chain(of(flags.unit, Criterion::Unit))
            .chain(of(flags.container, Criterion::Container))
            .chain(of(flags.pod, Criterion::Pod))
            .chain(of(flags.cgroup, Criterion::Cgroup));
        Self {
            pids: flags.pid,
            criteria: criteria.collect(),
        }
    }
}
