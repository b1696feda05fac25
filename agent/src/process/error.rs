//! Errors of reading processes and their files.

use std::{io, path::PathBuf};

use rustix::io::Errno;
use thiserror::Error;

/// Why a process could not be read; each message says what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// No process has this PID, or it is gone.
    #[error("there is no process {pid}; check the PID, which for a container is that on the host")]
    NoSuchProcess {
        /// The PID that was given.
        pid: u32,
    },
    /// The PID is the ID of a thread.
    #[error("{pid} is a thread of process {tgid}; use {tgid} instead")]
    Thread {
        /// The PID that was given.
        pid: u32,
        /// PID of the thread's process.
        tgid: u32,
    },
    /// It is a zombie.
    #[error("process {pid} ({comm}) has ended and is a zombie: its parent has not reaped it yet")]
    Ended {
        /// The PID that was given.
        pid: u32,
        /// Name of its main thread in the kernel.
        comm: String,
    },
    /// It is a kernel thread.
    #[error("process {pid} ({comm}) is a kernel thread and runs no program")]
    KernelThread {
        /// The PID that was given.
        pid: u32,
        /// Name of its main thread in the kernel.
        comm: String,
    },
    /// It has exited or called `exec` while it was read.
    #[error("process {pid} has ended or started another program while it was read; try again")]
    Replaced {
        /// The PID that was given.
        pid: u32,
    },
    /// Access is denied.
    #[error(
        "permission denied to read {file} of process {pid}; run as root or as the owner of the \
         process"
    )]
    Denied {
        /// The PID that was given.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
    },
    /// A file in `/proc/PID` could not be read.
    #[error("cannot read {file} of process {pid}; check that /proc is mounted")]
    Read {
        /// The PID that was given.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
    /// A file in `/proc/PID` is larger than the limit.
    #[error("{file} of process {pid} has more than {limit} bytes, which is not supported")]
    TooLong {
        /// The PID that was given.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    /// The error for `errno` from opening `file` below `/proc/PID`.
    pub(super) fn new(pid: u32, file: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NOENT => Self::NoSuchProcess { pid },
            Errno::ACCESS | Errno::PERM => Self::Denied { pid, file },
            _ => Self::Read {
                pid,
                file,
                source: errno.into(),
            },
        }
    }

    /// The error for `source` from reading `file` below `/proc/PID`.
    pub(super) fn from_read(pid: u32, file: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) => Self::new(pid, file, errno),
            None => Self::Read { pid, file, source },
        }
    }
}

/// Why a mapped file could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A system call failed.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// It was removed, and the agent lacks the capability to open it through its mapping.
    #[error("{} was removed; reading it through its mapping requires root", path.display())]
    Deleted {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
    },
    /// It is a directory, a device, a pipe or a socket.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
    },
    /// It is a malformed ELF file.
    #[error("{} is a malformed ELF file", path.display())]
    Damaged {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
    },
    /// It is no ELF file, so that it cannot be said whether it is the one that the process had mapped when its core
    /// dump was written.
    #[error("{} is not an ELF file", path.display())]
    NotElf {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
    },
    /// It is not the file that the process had mapped when its core dump was written, as far as that can be said.
    #[error("{} is another file than the process had mapped", path.display())]
    Changed {
        /// Its path in the mount namespace of the process.
        path: PathBuf,
    },
    /// The mapping is anonymous.
    #[error("the mapping has no file")]
    Anonymous,
}

impl OpenError {
    /// Whether it could succeed with more privileges.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Open { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Deleted { .. } => true,
            Self::NotRegular { .. }
            | Self::Damaged { .. }
            | Self::NotElf { .. }
            | Self::Changed { .. }
            | Self::Anonymous => false,
        }
    }
}
