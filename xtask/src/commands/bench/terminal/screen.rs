//! A program in a terminal of tmux.

use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use xtask::process::capture;

/// Lines and columns.
const SIZE: (u32, u32) = (60, 200);

/// How often the screen is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A terminal; what runs in it ends when the value is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    server: String,
    started: Instant,
    pid: u32,
}

impl Screen {
    /// Starts a program in a terminal of its own.
    pub(super) fn start(command: &Command) -> Result<Self> {
        let mut screen = Self {
            server: format!("agent-bench-{}", std::process::id()),
            started: Instant::now(),
            pid: 0,
        };
        let (lines, columns) = SIZE;
        let mut start = screen.tmux();
        start.args(["-f", "/dev/null", "new-session", "-d"]);
        start.args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        for (name, value) in command.get_envs() {
            let mut variable = OsString::from(name);
            variable.push("=");
            variable.push(value.unwrap_or_default());
            start.arg("-e").arg(variable);
        }
        start.arg("--").arg(command.get_program());
        start.args(command.get_args());
        start.args([";", "set-option", "remain-on-exit", "on"]);
        capture(&mut start).context("no terminal: install tmux")?;
        let pid = capture(screen.tmux().args(["list-panes", "-F", "#{pane_pid}"]))?;
        screen.pid = pid.trim().parse().context("tmux says no process id")?;
        Ok(screen)
    }

    /// The process that was started.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// What the screen shows.
    fn text(&self) -> Result<String> {
        capture(self.tmux().args(["capture-pane", "-p"]))
    }

    /// Waits until the screen shows a text; returns the time since the start.
    pub(super) fn wait_for(&self, text: &str, limit: Duration) -> Result<Duration> {
        loop {
            let shown = self.text()?;
            if shown.contains(text) {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > limit {
                bail!("no `{text}` within {limit:?}, but:\n{}", shown.trim());
            }
            thread::sleep(LOOK);
        }
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server]);
        command
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        command
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error means that it has ended.
        drop(capture(self.tmux().arg("kill-server")));
    }
}
