//! Flags of `agent gil` and `agent lock`.

use std::time::Duration;

use clap::Args;

use super::{
    options::{UsageError, WaitOptions},
    record::MAX_RATE,
    target::TargetFlags,
    values,
};

/// Options of commands that sample what the threads of a process wait for.
#[derive(Debug, Args)]
pub(super) struct WaitFlags {
    #[command(flatten)]
    process: TargetFlags,
    /// Time to sample: 30, 500ms, 1m30s; Ctrl-C ends it early
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    duration: Duration,
    /// Samples per second of the time of each thread
    #[arg(
        short,
        long,
        value_name = "HZ",
        default_value_t = 99,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RATE)
    )]
    rate: u32,
}

impl TryFrom<WaitFlags> for WaitOptions {
    type Error = UsageError;

    fn try_from(flags: WaitFlags) -> Result<Self, UsageError> {
        Ok(Self {
            process: flags.process.required()?,
            duration: flags.duration,
            rate: flags.rate,
        })
    }
}
