//! Takes the stacks without the BPF programs, for those who may read a process but not load programs, as in a container
//! with `CAP_SYS_PTRACE`.
//!
//! Threads that do not run are proved through `/proc`, as they are by the programs. One that runs has no stack.

use anyhow::{Result, bail};

use super::taken::{Capture, Processes, Subjects, shown};
use crate::{
    commands::cli::DumpOptions,
    process::{self, Process, attach_hint},
    session::{End, OutsideSession, Signals},
};

/// Takes the stack of each thread of the processes that does not run; `why` says why not of those that do.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn take(options: &DumpOptions, why: &str) -> Result<Capture> {
    check_access(options)?;
    let Subjects {
        examinations,
        found,
        settings,
        taking,
    } = Subjects::examine(options, false).await?;
    let signals = Signals::to_end()?;
    let mut processes = Processes::default();
    let children = options.children;
    let opened = OutsideSession::open(&settings, &examinations, found, children, &mut processes);
    let mut session = opened.await?;
    let mut end = End::new(&taking.pids, None, signals)?;
    let taken = session.take_snapshot(&taking.snapshot, options.timeout, &mut end);
    let reason = taken.await?;
    let ended = taking.end(options, session.elapsed(), reason);
    let profile = session.finish(&settings, &shown())?;
    ended.with(profile, &processes, Some(note(why)))
}

/// What all stacks lack.
fn note(why: &str) -> String {
    format!("Read from outside, {why}: no stacks of threads that run, and Python frames only")
}

/// Checks whether the processes may be read.
///
/// # Errors
///
/// One sentence that says what to do, where one may not.
fn check_access(options: &DumpOptions) -> Result<()> {
    for selected in options.processes.find()?.processes {
        let pid = selected.pid;
        let denied = match Process::open(pid) {
            Ok(process) => matches!(process.memory(), Err(process::Error::Denied { .. })),
            Err(process::Error::Denied { .. }) => true,
            // That is said when it is examined.
            Err(_) => false,
        };
        if denied {
            bail!(
                "permission to read process {pid} is missing: {}",
                attach_hint(pid)
            );
        }
    }
    Ok(())
}
