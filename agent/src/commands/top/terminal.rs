//! The terminal: taken for the screen, and given back as it was.
//!
//! Invariant: it is given back however the agent ends, also when it panics. Only SIGKILL leaves it as it is.

use std::{
    io::{self, Stdout, stdout},
    panic,
    thread::{self, ThreadId},
};

use anyhow::{Context as _, Result};
use crossterm::{
    cursor::Show,
    event::{self, Event},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Terminal, backend::CrosstermBackend};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

/// Keys that wait; a program that does nothing loses more of them.
const MAX_KEYS: usize = 64;

/// The terminal while it is the screen's.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(super) fn take() -> Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        let terminal = terminal.context("cannot use the terminal: try --batch")?;
        give_back_on_panic(thread::current().id());
        let screen = Self { terminal };
        take_terminal().context("cannot use the terminal: try --batch")?;
        Ok(screen)
    }

    /// The terminal, for drawing.
    pub(super) fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.terminal
    }

    /// Gives the terminal back, stops the agent until it is continued, and takes the terminal again.
    ///
    /// # Errors
    ///
    /// When the terminal has gone.
    pub(super) fn suspend(&mut self) -> Result<()> {
        give_back();
        // All threads stop until `SIGCONT`; the BPF programs sample on.
        let _ = kill_process(getpid(), Signal::STOP);
        take_terminal().context("cannot use the terminal")?;
        // Draws all of it. Clearing the present one would ask the terminal where the cursor is, and the
        // thread that reads keys would get the answer.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Events of the terminal, read by a thread of their own, which ends with the agent or when the terminal
/// has gone.
///
/// # Errors
///
/// When the thread cannot be started.
pub(super) fn events() -> Result<mpsc::Receiver<Event>> {
    let (sender, receiver) = mpsc::channel(MAX_KEYS);
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || {
            while let Ok(event) = event::read() {
                if sender.blocking_send(event).is_err() {
                    break;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(receiver)
}

fn take_terminal() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)
}

fn give_back() {
    // There may be no terminal any more.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Gives the terminal back before the thread of the screen reports a panic.
fn give_back_on_panic(screen: ThreadId) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == screen {
            give_back();
        }
        report(info);
    }));
}
