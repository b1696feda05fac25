//! Starts a program that waits, before its first instruction, until it is sampled.
//!
//! Invariants: the program's standard input, output and error are the agent's own; it never runs
//! without the agent: when that gives up before, the program is not started at all.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, Command, ExitCode, ExitStatus},
    thread::{self, JoinHandle},
};

use rustix::process::{Pid, Signal, getpgrp, kill_process};

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program, or it may not be run.
    #[error("cannot run '{}'", program.display())]
    Run {
        /// What was asked for.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// Processes or pipes ran out.
    #[error("cannot start a process")]
    Start(#[source] io::Error),
}

/// A process that is about to run a program.
#[derive(Debug)]
pub struct PausedChild {
    pid: u32,
    program: OsString,
    go: io::PipeWriter,
    started: JoinHandle<io::Result<Child>>,
}

/// What the process writes to say which it is, and what it reads to go on.
const GO: u8 = 1;

impl PausedChild {
    /// Makes the process.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new(program: &OsString, arguments: &[OsString]) -> Result<Self, Error> {
        let (mut told, tell) = io::pipe().map_err(Error::Start)?;
        let (wait, go) = io::pipe().map_err(Error::Start)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (tell_fd, wait_fd, go_fd) = (tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        // SAFETY: only calls that may follow a fork are made, on descriptors that are open until
        // the program is run.
        unsafe {
            command.pre_exec(move || announce_and_wait(tell_fd, wait_fd, go_fd));
        }
        // Starting a process returns when its program runs, which it does not until told.
        let started = thread::spawn(move || {
            let child = command.spawn();
            drop((tell, wait));
            child
        });
        let mut pid = [0; 4];
        match told.read_exact(&mut pid) {
            Ok(()) => Ok(Self {
                pid: u32::from_ne_bytes(pid),
                program: program.clone(),
                go,
                started,
            }),
            Err(source) => Err(Error::Start(match started.join() {
                Ok(Err(why)) => why,
                _ => source,
            })),
        }
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it run its program.
    ///
    /// # Errors
    ///
    /// When there is no such program.
    pub fn release(mut self) -> Result<Program, Error> {
        // If nobody reads it the process is gone, which is told below.
        let _ = self.go.write_all(&[GO]);
        let child = self
            .started
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        match child {
            Ok(child) => Ok(Program(child)),
            Err(source) => Err(Error::Run {
                program: self.program,
                source,
            }),
        }
    }
}

/// Says which process this is, and waits for the word to go on.
fn announce_and_wait(tell: RawFd, wait: RawFd, go: RawFd) -> io::Result<()> {
    use rustix::{fd::BorrowedFd, io};

    // SAFETY: all three are open: this process is a copy of the one that opened them.
    let (tell, wait) = unsafe {
        // With its own copy of the other end open it would wait for itself.
        io::close(go);
        (BorrowedFd::borrow_raw(tell), BorrowedFd::borrow_raw(wait))
    };
    io::write(tell, &std::process::id().to_ne_bytes())?;
    let mut word = [0];
    match io::retry_on_intr(|| io::read(wait, &mut word))? {
        0 => Err(std::io::ErrorKind::Interrupted.into()),
        _ => Ok(()),
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Waits for its end, and gives the status with which a shell would report it.
    ///
    /// # Errors
    ///
    /// When somebody else has waited for it.
    pub fn wait(&mut self) -> io::Result<ExitCode> {
        self.0.wait().map(shell_status)
    }

    /// Passes a signal on, unless it came from a terminal, which has sent it to the program too.
    pub fn pass_on(&self, signal: Signal) {
        if is_from_terminal(signal) {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            // It may have ended, and nobody has waited for it yet: the id is still its own.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether a terminal sends this signal, and to this process as well.
fn is_from_terminal(signal: Signal) -> bool {
    let is_key = [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal);
    is_key
        && std::fs::File::open("/dev/tty")
            .ok()
            .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
            .is_some_and(|foreground| foreground == getpgrp())
}

/// 128 and the number of the signal that ended it, else its own status.
fn shell_status(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
