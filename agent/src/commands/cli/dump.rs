//! Flags of `agent dump`.

use std::time::Duration;

use clap::Args;

use super::{
    options::{DumpOptions, ShownFrames},
    values::{self, MAX_PID},
};

/// The flags.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct DumpFlags {
    /// Process whose threads to show
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=MAX_PID))]
    pid: u32,

    /// Its descendants too
    #[arg(short, long)]
    children: bool,

    /// Native frames too [default]
    #[arg(long, overrides_with = "no_native")]
    native: bool,

    /// Python frames only
    #[arg(long)]
    no_native: bool,

    /// Kernel frames too
    #[arg(long, conflicts_with = "no_native")]
    kernel: bool,

    /// Native frames of the interpreter itself too, and those that start threads
    #[arg(long, conflicts_with = "no_native")]
    internals: bool,

    /// Inlined native functions too, which takes longer
    #[arg(long, conflicts_with = "no_native")]
    inlined: bool,

    /// Time after which a thread that has no stack yet is shown without one
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    timeout: Duration,

    /// One JSON document in place of text
    #[arg(short, long)]
    json: bool,
}

impl From<DumpFlags> for DumpOptions {
    fn from(flags: DumpFlags) -> Self {
        Self {
            pid: flags.pid,
            children: flags.children,
            // Of both, clap keeps the last one.
            native: !flags.no_native,
            frames: ShownFrames {
                kernel: flags.kernel,
                internals: flags.internals,
                inlined: flags.inlined,
            },
            timeout: flags.timeout,
            json: flags.json,
        }
    }
}
