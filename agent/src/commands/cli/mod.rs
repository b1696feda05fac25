//! The command line: raw flags in, validated options out.
//!
//! Invariants: what clap and this room accept is valid as far as the command line alone shows;
//! whether the output can be written is decided by
//! [`Output::prepare`](super::output::Output::prepare).

mod completions;
mod dump;
mod effect;
mod flags;
mod help;
mod man_page;
mod options;
mod outputs;
mod percent;
mod record;
mod report;
mod run;
mod suggest;
mod target;
mod top;
mod values;
mod wait;

#[cfg(feature = "testing")]
pub use self::flags::check as check_command_line;
pub use self::{
    completions::completions,
    flags::parse,
    man_page::man_page,
    options::{
        Command, CoreOptions, DiffOptions, DoctorOptions, DumpOptions, RecordOptions,
        ReportOptions, ReportView, RunOptions, ShownFrames, Target, TopOptions, WaitOptions,
    },
};
