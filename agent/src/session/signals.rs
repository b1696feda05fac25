//! Signals sent to the agent.
//!
//! They are handled even if they were ignored when the agent was started, as a shell ignores
//! `SIGINT` for background jobs: `kill -INT` ends a capture, as it does with perf and py-spy. In a
//! program that the agent starts, the signals are ignored that were ignored when the agent started.

use std::{future::poll_fn, io, task::Poll};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Handlers of some signals, from now on.
pub struct Signals {
    handlers: Vec<(Signal, unix::Signal)>,
    /// One that has arrived and is the next.
    arrived: Option<Signal>,
}

impl Signals {
    /// Signals that end a capture of a process.
    pub fn to_end() -> Result<Self> {
        Self::new(&[Signal::INT, Signal::TERM])
    }

    /// Signals that end the agent of a host, and the one that reloads its configuration.
    pub fn to_end_or_reload() -> Result<Self> {
        Self::new(&[Signal::INT, Signal::TERM, Signal::HUP])
    }

    /// Signals that are forwarded to a program that the agent has started.
    pub fn to_pass_on() -> Result<Self> {
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
            .context("cannot install signal handlers")?;
        Ok(Self {
            handlers,
            arrived: None,
        })
    }

    /// Waits until there is one, which [`Self::next`] then returns. Cancel safe.
    pub async fn arrived(&mut self) {
        self.arrived = Some(self.next().await);
    }

    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        if let Some(signal) = self.arrived.take() {
            return signal;
        }
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
