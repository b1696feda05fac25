//! Flags that say which processes a command is about.

use clap::Args;

use super::{options::UsageError, values::MAX_PID};
use crate::targets::selection::ProcessSelection;

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
        value_parser = clap::value_parser!(u32).range(1..=MAX_PID)
    )]
    pid: Vec<u32>,
}

impl TargetFlags {
    /// The processes, of which there must be one.
    pub(super) fn required(self) -> Result<ProcessSelection, UsageError> {
        let selection = ProcessSelection::from(self);
        if selection.is_empty() {
            return Err(UsageError::NoProcess);
        }
        Ok(selection)
    }
}

impl From<TargetFlags> for ProcessSelection {
    fn from(flags: TargetFlags) -> Self {
        Self { pids: flags.pid }
    }
}
