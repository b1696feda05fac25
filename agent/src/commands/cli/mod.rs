//! The command line: raw flags in, validated options out.
//!
//! Invariants: what clap and this room accept can be done as far as the command line alone tells;
//! whether the output can be written is decided by
//! [`Output::prepare`](super::output::Output::prepare).

mod flags;
mod options;
mod record;
mod report;
mod run;
mod values;

pub use self::{
    flags::parse,
    options::{Command, RecordOptions, ReportOptions, ReportOutput, RunOptions, Target},
};
