//! All that can end a capture.

use std::{
    future::{pending, poll_fn},
    io,
    process::ExitCode,
    task::Poll,
    time::Duration,
};

use anyhow::{Context as _, Result};
use rustix::{
    fd::OwnedFd,
    io::Errno,
    process::{self, Pid, PidfdFlags, pidfd_open},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use crate::launch::Program;

/// Why a capture is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    TimeOver,
    Interrupted,
    ProcessEnded,
}

/// The signals that are handled, and what they do.
pub(super) struct Signals {
    handlers: Vec<(process::Signal, Signal)>,
    end_capture: bool,
}

impl Signals {
    /// Those that end a capture of a process.
    pub(super) fn to_end() -> Result<Self> {
        Self::new(&[process::Signal::INT, process::Signal::TERM], true)
    }

    /// Those that are meant for the program that was started.
    pub(super) fn to_pass_on() -> Result<Self> {
        use process::Signal;

        let signals = [
            Signal::INT,
            Signal::TERM,
            Signal::HUP,
            Signal::QUIT,
            Signal::USR1,
            Signal::USR2,
        ];
        Self::new(&signals, false)
    }

    /// Handles them from now on.
    fn new(signals: &[process::Signal], end_capture: bool) -> Result<Self> {
        let handlers = signals
            .iter()
            .map(|&number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?)))
            .collect::<io::Result<_>>()
            .context("signals cannot be handled")?;
        Ok(Self {
            handlers,
            end_capture,
        })
    }

    /// The next one that comes.
    async fn next(&mut self) -> process::Signal {
        poll_fn(|context| {
            for (number, handler) in &mut self.handlers {
                if handler.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// All that can end a capture.
pub(super) struct End {
    deadline: Option<Instant>,
    process: AsyncFd<OwnedFd>,
    signals: Signals,
}

impl End {
    pub(super) fn new(pid: u32, duration: Option<Duration>, signals: Signals) -> Result<Self> {
        let raw_pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = raw_pid
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .with_context(|| format!("process {pid} cannot be watched"))?;
        // SAFETY: an owned descriptor is open and stays the same.
        let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }
            .map_err(io::Error::from)
            .context("the process cannot be watched")?;
        Ok(Self {
            deadline: duration.map(|duration| Instant::now() + duration),
            process,
            signals,
        })
    }

    /// Waits until the capture is over; signals that do not end it are passed on to `program`.
    ///
    /// It may be dropped at any time and called again.
    pub(super) async fn wait(&mut self, program: Option<&Program>) -> Why {
        let deadline = self.deadline;
        loop {
            tokio::select! {
                () = until(deadline) => return Why::TimeOver,
                _ = self.process.readable() => return Why::ProcessEnded,
                signal = self.signals.next() => {
                    if self.signals.end_capture {
                        return Why::Interrupted;
                    }
                    if let Some(program) = program {
                        program.pass_on(signal);
                    }
                }
            }
        }
    }

    /// Waits until the program has ended, and gives its status.
    pub(super) async fn outlast(&mut self, program: &mut Program) -> Result<ExitCode> {
        self.deadline = None;
        while self.wait(Some(program)).await != Why::ProcessEnded {}
        program.wait().context("the program's status is lost")
    }
}

/// Waits until `deadline`, or for ever.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}
