//! What ends a capture: a deadline, a signal, the exit of the processes.

use std::{future::pending, io, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::Instant,
};

use super::{clock::Began, signals::Signals};
use crate::targets::launch::Program;

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    TimeOver,
    Interrupted,
    ProcessEnded,
}

/// Waits for the end of a capture.
pub struct End {
    /// From the start of sampling on, which has not come yet.
    duration: Option<Duration>,
    deadline: Option<Instant>,
    /// Those that have not been seen to end; [`None`] where others may start.
    processes: Option<Vec<AsyncFd<OwnedFd>>>,
    signals: Signals,
    /// Whether a program was asked to end.
    is_interrupted: bool,
}

impl End {
    /// The end of these processes, of which the last one counts, or of `duration`.
    ///
    /// # Errors
    ///
    /// When a process cannot be watched, or all have ended already.
    pub fn new(pids: &[u32], duration: Option<Duration>, signals: Signals) -> Result<Self> {
        let mut processes = Vec::new();
        for &pid in pids {
            match watch(pid) {
                // Others may live.
                Err(Errno::SRCH) if pids.len() > 1 => {}
                watched => {
                    let process =
                        watched.with_context(|| format!("process {pid} cannot be watched"))?;
                    // SAFETY: an owned descriptor stays open and the same until it is dropped.
                    let process =
                        unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }
                            .map_err(io::Error::from)
                            .context("the process cannot be watched")?;
                    processes.push(process);
                }
            }
        }
        if processes.is_empty() {
            bail!("all of these processes have ended: choose others");
        }
        Ok(Self {
            duration,
            deadline: None,
            processes: Some(processes),
            signals,
            is_interrupted: false,
        })
    }

    /// The end of `duration`: whatever ends before, what is to be sampled may start again.
    #[must_use]
    pub fn of_time(duration: Option<Duration>, signals: Signals) -> Self {
        Self {
            duration,
            deadline: None,
            processes: None,
            signals,
            is_interrupted: false,
        }
    }

    /// Has the duration begin with sampling; returns when it will be over.
    pub(super) fn begin(&mut self, began: &Began) -> Option<Instant> {
        if let Some(duration) = self.duration.take() {
            self.deadline = Some((began.at + duration).into());
        }
        self.deadline
    }

    /// Waits until the capture ends; signals end it, or are forwarded to `program`.
    ///
    /// Cancel safe.
    pub async fn wait(&mut self, program: Option<&Program>) -> EndReason {
        let deadline = self.deadline;
        loop {
            tokio::select! {
                () = until(deadline) => return EndReason::TimeOver,
                () = ended(self.processes.as_mut()) => return EndReason::ProcessEnded,
                signal = self.signals.next() => match program {
                    Some(program) => {
                        self.is_interrupted |= [Signal::INT, Signal::TERM].contains(&signal);
                        program.pass_on(signal);
                    }
                    None => return EndReason::Interrupted,
                },
            }
        }
    }

    /// Whether a signal was forwarded that asks a program to end, and with it the capture.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Waits until the time is over, or a signal ends the capture, whichever processes have ended.
    ///
    /// Cancel safe.
    pub(super) async fn wait_longer(&mut self) -> EndReason {
        let deadline = self.deadline;
        tokio::select! {
            () = until(deadline) => EndReason::TimeOver,
            _ = self.signals.next() => EndReason::Interrupted,
        }
    }

    /// Waits until a signal says that the capture is to end at once: not at all if that is why it
    /// has ended.
    pub async fn interrupted(&mut self, reason: EndReason, program: Option<&Program>) {
        if reason == EndReason::Interrupted {
            return;
        }
        let signal = self.signals.next().await;
        if let Some(program) = program {
            program.pass_on(signal);
        }
    }

    /// Waits until the program has exited, and returns its status.
    pub async fn outlast(&mut self, program: &mut Program) -> Result<ExitCode> {
        self.deadline = None;
        while self.wait(Some(program)).await != EndReason::ProcessEnded {}
        program.wait().context("the program's status is lost")
    }
}

/// Whether a process has ended, even if its parent has not waited for it.
pub(super) fn has_ended(pid: u32) -> bool {
    let process = match watch(pid) {
        Ok(process) => process,
        Err(Errno::SRCH | Errno::INVAL) => return true,
        // For example too many open files: it says nothing of the process.
        Err(_) => return false,
    };
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
}

/// A descriptor that is readable when the process has ended.
fn watch(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
}

/// Waits until all of these have ended, and removes those that have; for ever where there are none to wait for. Cancel
/// safe.
async fn ended(processes: Option<&mut Vec<AsyncFd<OwnedFd>>>) {
    let Some(processes) = processes else {
        return pending().await;
    };
    while let Some(process) = processes.last() {
        // An error does not say that it lives.
        let _ = process.readable().await;
        processes.pop();
    }
}

/// Waits until `deadline`, or for ever.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}
