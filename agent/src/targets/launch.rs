//! Starts a program paused before its exec, so that it is sampled from its first instruction.
//!
//! Invariants: the program's standard input, output and error are the agent's own; if the agent
//! fails before it releases the program, the program is never executed.

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

use rustix::{
    process::{Pid, Signal, getpgrp, kill_process},
    thread::clear_ambient_capability_set,
};

use super::launch_user::LaunchUser;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program does not exist or may not be executed.
    #[error("cannot run '{}'", program.display())]
    Run {
        /// The program.
        program: OsString,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Processes or pipes ran out.
    #[error("cannot start a process")]
    Start(#[source] io::Error),
}

impl Error {
    /// The status with which commands that start others exit, as `env` and shells do.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Run { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Run { .. } => 126,
            Self::Start(_) => 125,
        }
    }
}

/// A child process that is paused before exec.
#[derive(Debug)]
pub struct PausedChild {
    pid: u32,
    program: OsString,
    go: io::PipeWriter,
    started: JoinHandle<io::Result<Child>>,
}

/// The byte that releases the child.
const GO: u8 = 1;

impl PausedChild {
    /// Forks the child, which has no ambient capabilities: those of the agent are not for programs. As
    /// another user it has no capabilities at all, and no supplementary groups.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn new(
        program: &OsString,
        arguments: &[OsString],
        user: Option<&LaunchUser>,
    ) -> Result<Self, Error> {
        let (mut pid_reader, pid_writer) = io::pipe().map_err(Error::Start)?;
        let (wait, go) = io::pipe().map_err(Error::Start)?;
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(user) = user {
            // This leaves the groups of root too.
            command.uid(user.user).gid(user.group);
            command.envs(user.variables());
        }
        let (pid_fd, wait_fd, go_fd) = (pid_writer.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        // SAFETY: only async-signal-safe calls are made, on descriptors that stay open until exec.
        unsafe {
            command.pre_exec(move || {
                clear_ambient_capability_set()?;
                announce_and_wait(pid_fd, wait_fd, go_fd)
            });
        }
        // `spawn` returns after exec, which waits for the release.
        let started = thread::spawn(move || {
            let child = command.spawn();
            drop((pid_writer, wait));
            child
        });
        let mut pid = [0; 4];
        match pid_reader.read_exact(&mut pid) {
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

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it execute its program.
    ///
    /// # Errors
    ///
    /// When the program cannot be executed.
    pub fn release(mut self) -> Result<Program, Error> {
        // If the child is gone, joining it below returns the error.
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

/// In the child: sends its id and waits for the release.
fn announce_and_wait(pid_writer: RawFd, wait: RawFd, go: RawFd) -> io::Result<()> {
    use rustix::{fd::BorrowedFd, io};

    // SAFETY: all three are open: the child inherited them.
    let (pid_writer, wait) = unsafe {
        // With its own copy of the write end open it would never see the end of the pipe.
        io::close(go);
        (
            BorrowedFd::borrow_raw(pid_writer),
            BorrowedFd::borrow_raw(wait),
        )
    };
    io::write(pid_writer, &std::process::id().to_ne_bytes())?;
    let mut word = [0];
    match io::retry_on_intr(|| io::read(wait, &mut word))? {
        0 => Err(std::io::ErrorKind::Interrupted.into()),
        _ => Ok(()),
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Waits for its exit, and returns its status as a shell does.
    ///
    /// # Errors
    ///
    /// When it was already waited for.
    pub fn wait(&mut self) -> io::Result<ExitCode> {
        self.0.wait().map(shell_status)
    }

    /// Forwards a signal, unless a terminal has sent it to the program too.
    pub fn pass_on(&self, signal: Signal) {
        if is_from_terminal(signal) {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            // It was not waited for yet, so the id is still its own.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether a terminal sends this signal to the whole process group.
fn is_from_terminal(signal: Signal) -> bool {
    let is_key = [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal);
    is_key
        && std::fs::File::open("/dev/tty")
            .ok()
            .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
            .is_some_and(|foreground| foreground == getpgrp())
}

/// Its exit status, or 128 plus the number of the signal that ended it.
fn shell_status(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
