//! Flags of `agent dump`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{
    options::{Command, CoreOptions, DumpOptions, ShownFrames, UsageError},
    target::TargetFlags,
    values,
};

/// The flags.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(super) struct DumpFlags {
    #[command(flatten)]
    processes: TargetFlags,

    /// The core dump of a process in place of a process that runs
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Target",
        conflicts_with_all = [
            "pid", "name", "unit", "container", "pod", "cgroup", "children", "kernel", "timeout", "repeat",
        ]
    )]
    core: Option<PathBuf>,

    /// Directory with the files that the process of the core dump had, as of the
    /// image of its container, if not those of this machine
    #[arg(
        long,
        value_name = "FOLDER",
        help_heading = "Target",
        requires = "core"
    )]
    root: Option<PathBuf>,

    /// Their descendants too
    #[arg(short, long, help_heading = "Target")]
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

    /// The source line of each Python frame too, where its file can be read
    #[arg(long)]
    source: bool,

    /// The tasks of asyncio too, with what they await (Python 3.14 and later)
    #[arg(long)]
    tasks: bool,

    /// Arguments and local variables of each Python frame too; their values may be secret
    #[arg(short, long)]
    locals: bool,

    /// Characters of a value after which it is cut, 16 to 4096
    #[arg(
        long, value_name = "COUNT", default_value_t = 128, requires = "locals",
        value_parser = clap::value_parser!(u16).range(16..=4096)
    )]
    locals_length: u16,

    /// Time after which a thread that has no stack yet is shown without one
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    timeout: Duration,

    /// Dumps, one after another
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Time from the beginning of a dump to that of the next one, if it does not take longer
    #[arg(
        long, value_name = "TIME", default_value = "1s", requires = "repeat", value_parser = values::duration
    )]
    interval: Duration,

    /// One JSON document in place of text; with --repeat one on each line
    #[arg(short, long)]
    json: bool,
}

impl DumpFlags {
    fn frames(&self) -> ShownFrames {
        ShownFrames {
            kernel: self.kernel,
            internals: self.internals,
            inlined: self.inlined,
        }
    }
}

impl TryFrom<DumpFlags> for Command {
    type Error = UsageError;

    fn try_from(flags: DumpFlags) -> Result<Self, UsageError> {
        let frames = flags.frames();
        let Some(file) = flags.core else {
            return flags.try_into().map(Self::Dump);
        };
        Ok(Self::DumpCore(CoreOptions {
            file,
            root: flags.root,
            native: (!flags.no_native).then_some(frames),
            source: flags.source,
            tasks: flags.tasks,
            locals: flags.locals.then_some(flags.locals_length.into()),
            json: flags.json,
        }))
    }
}

impl TryFrom<DumpFlags> for DumpOptions {
    type Error = UsageError;

    fn try_from(flags: DumpFlags) -> Result<Self, UsageError> {
        let frames = flags.frames();
        Ok(Self {
            processes: flags.processes.required()?,
            children: flags.children,
            // Of both, clap keeps the last one.
            native: !flags.no_native,
            frames,
            source: flags.source,
            tasks: flags.tasks,
            locals: flags.locals.then_some(flags.locals_length.into()),
            timeout: flags.timeout,
            repeat: flags.repeat,
            interval: flags.interval,
            json: flags.json,
        })
    }
}
