//! A child process, and what it used until its end.
//!
//! Invariant: it ends when its value is dropped and when this process dies.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use xtask::process::line;

use super::proc;

/// A running process; its messages are kept for the error of a failure.
#[derive(Debug)]
pub(in crate::commands) struct Running {
    child: Child,
    line: String,
    started: Instant,
    reaped: bool,
}

/// What a process has used, from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Usage {
    pub(in crate::commands) wall: Duration,
    pub(in crate::commands) cpu: Duration,
    pub(in crate::commands) peak_memory_bytes: u64,
}

impl Running {
    pub(in crate::commands) fn start(command: &mut Command) -> Result<Self> {
        Self::spawn(command, Stdio::piped())
    }

    /// The same with its messages in a file, which has room for those of a long run.
    pub(in crate::commands) fn start_logging(command: &mut Command, log: File) -> Result<Self> {
        Self::spawn(command, log.into())
    }

    fn spawn(command: &mut Command, messages: Stdio) -> Result<Self> {
        let line = line(command);
        // SAFETY: between fork and exec there is only one system call, which takes numbers.
        unsafe { command.pre_exec(end_with_us) };
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages)
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        Ok(Self {
            child,
            line,
            started,
            reaped: false,
        })
    }

    pub(in crate::commands) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(in crate::commands) fn started(&self) -> Instant {
        self.started
    }

    /// Polls `ready` until it returns a value.
    pub(in crate::commands) fn wait_until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if proc::has_ended(self.pid()) {
                let (status, _) = self.reap()?;
                bail!("{}", self.failure(&format!("{status} before {what}")));
            }
            if self.started.elapsed() > limit {
                bail!("{}", self.failure(&format!("no {what} within {limit:?}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end, which must be a success, until `limit` after its start.
    pub(in crate::commands) fn finish(mut self, limit: Duration) -> Result<Usage> {
        while !proc::has_ended(self.pid()) {
            if self.started.elapsed() > limit {
                bail!(
                    "{}",
                    self.failure(&format!("still running after {limit:?}"))
                );
            }
            thread::sleep(Duration::from_millis(1));
        }
        let wall = self.started.elapsed();
        let (status, usage) = self.reap()?;
        if !status.success() {
            bail!("{}", self.failure(&status.to_string()));
        }
        let time = |time: libc::timeval| -> Result<Duration> {
            let micros = u64::try_from(time.tv_usec)?;
            Ok(Duration::from_secs(u64::try_from(time.tv_sec)?) + Duration::from_micros(micros))
        };
        Ok(Usage {
            wall,
            cpu: time(usage.ru_utime)? + time(usage.ru_stime)?,
            peak_memory_bytes: u64::try_from(usage.ru_maxrss)? * 1024,
        })
    }

    /// Requests its end with SIGTERM and waits for it, for so long.
    pub(in crate::commands) fn terminate(self, limit: Duration) -> Result<()> {
        self.end_by(libc::SIGTERM, limit)
    }

    /// The same with the signal that Ctrl-C sends.
    pub(in crate::commands) fn interrupt(self, limit: Duration) -> Result<()> {
        self.end_by(libc::SIGINT, limit)
    }

    fn end_by(self, signal: libc::c_int, limit: Duration) -> Result<()> {
        let pid = libc::pid_t::try_from(self.pid())?;
        // SAFETY: the call takes numbers only; the process is our child and was not waited for.
        if unsafe { libc::kill(pid, signal) } != 0 {
            return Err(io::Error::last_os_error()).context("a child cannot be ended");
        }
        let limit = self.started.elapsed() + limit;
        self.finish(limit).map(drop)
    }

    /// Takes the status and the usage of the process, which the standard library does not give.
    fn reap(&mut self) -> Result<(ExitStatus, libc::rusage)> {
        let pid = libc::pid_t::try_from(self.pid())?;
        let mut status = 0;
        // SAFETY: an `rusage` is numbers only, of which all may be zero.
        let mut usage = unsafe { mem::zeroed::<libc::rusage>() };
        // SAFETY: both places are writable; the process is our child and was not waited for.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if waited != pid {
            bail!("`{}` cannot be waited for", self.line);
        }
        self.reaped = true;
        Ok((ExitStatus::from_raw(status), usage))
    }

    /// Ends it, and returns an error text with its last messages.
    fn failure(&mut self, why: &str) -> String {
        self.kill();
        let mut messages = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // Whatever cannot be read or is no text is missing.
            let _ = stderr.read_to_string(&mut messages);
        }
        format!("`{}`: {why}\n{}", self.line, messages.trim())
    }

    fn kill(&mut self) {
        if !mem::replace(&mut self.reaped, true) {
            // An error means that it has ended already.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Lets the kernel end the calling process when its parent ends, be it by a signal that leaves no
/// time to clean up.
fn end_with_us() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        Running::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_end_has_its_usage() {
        let usage = shell("true").finish(LONG).unwrap();
        assert!(usage.wall < LONG);
        assert!(usage.peak_memory_bytes > 4096);
    }

    #[test]
    fn a_failure_has_its_messages() {
        let error = shell("echo no such thing >&2; exit 3")
            .finish(LONG)
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3"), "{text}");
        assert!(text.ends_with("no such thing"), "{text}");
    }

    #[test]
    fn an_early_end_is_no_readiness() {
        let mut early = shell("exit 0");
        let error = early.wait_until("a sign", LONG, || None::<()>).unwrap_err();
        assert!(error.to_string().contains("before a sign"), "{error}");
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        let slow = shell("exec sleep 60");
        let pid = slow.pid();
        assert!(slow.finish(Duration::from_millis(50)).is_err());
        assert!(proc::has_ended(pid));
    }
}
