//! The signals that somebody sends to the agent.
//!
//! They are handled even where the agent was started with them ignored, as a shell does with
//! `SIGINT` for what runs in the background: `kill -INT` ends a capture, as it does one of perf or
//! py-spy. A program that the agent starts has them ignored as the agent had.

use std::{future::poll_fn, io, task::Poll};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that are handled from now on.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Those that end a capture of a process.
    pub(super) fn to_end() -> Result<Self> {
        Self::new(&[Signal::INT, Signal::TERM])
    }

    /// Those that end the agent of a host, and the one that lets it read its configuration again.
    pub(super) fn to_end_or_reload() -> Result<Self> {
        Self::new(&[Signal::INT, Signal::TERM, Signal::HUP])
    }

    /// Those that are meant for the program that was started.
    pub(super) fn to_pass_on() -> Result<Self> {
        Self::new(&[
            Signal::INT,
            Signal::TERM,
            Signal::HUP,
            Signal::QUIT,
            Signal::USR1,
            Signal::USR2,
        ])
    }

    fn new(signals: &[Signal]) -> Result<Self> {
        let handlers = signals
            .iter()
            .map(|&number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?)))
            .collect::<io::Result<_>>()
            .context("signals cannot be handled")?;
        Ok(Self(handlers))
    }

    /// The next one that comes. It may be dropped at any time and called again.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (number, handler) in &mut self.0 {
                if handler.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
