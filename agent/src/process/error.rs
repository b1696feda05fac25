//! Why a process could not be looked at.

use std::{io, path::PathBuf};

use rustix::io::Errno;
use thiserror::Error;

/// Why a process could not be looked at; each says what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// There is none with this id, or it is gone.
    #[error("there is no process {pid}; check the id, in a container it is that of the host")]
    NoSuchProcess {
        /// What was asked for.
        pid: u32,
    },
    /// The id is that of a thread.
    #[error("{pid} is a thread of process {tgid}; give the process's id, {tgid}")]
    Thread {
        /// What was asked for.
        pid: u32,
        /// The thread's process.
        tgid: u32,
    },
    /// It has ended and waits for its parent.
    #[error("process {pid} ({comm}) has ended and only waits for its parent to notice")]
    Ended {
        /// What was asked for.
        pid: u32,
        /// Its name in the kernel (`comm`).
        comm: String,
    },
    /// It runs in the kernel only.
    #[error("process {pid} ({comm}) is a thread of the kernel and runs no program")]
    KernelThread {
        /// What was asked for.
        pid: u32,
        /// Its name in the kernel (`comm`).
        comm: String,
    },
    /// It has ended or started another program in the meantime.
    #[error("process {pid} has ended or started another program while it was looked at; try again")]
    Replaced {
        /// What was asked for.
        pid: u32,
    },
    /// The system forbids it.
    #[error("may not read {file} of process {pid}; run as root or as the owner of the process")]
    Denied {
        /// What was asked for.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
    },
    /// Something in `/proc/PID` could not be read.
    #[error("cannot read {file} of process {pid}; check that /proc is mounted")]
    Read {
        /// What was asked for.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Something in `/proc/PID` is larger than what is read.
    #[error("{file} of process {pid} has more than {limit} bytes, which is not supported")]
    TooLong {
        /// What was asked for.
        pid: u32,
        /// The file below `/proc/PID`.
        file: &'static str,
        /// The bound.
        limit: usize,
    },
}

impl Error {
    /// The error for `errno` at `file` below `/proc/PID`.
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

    /// The error for `source` at reading `file` below `/proc/PID`.
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
    /// The system refused.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file, as the process sees it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It has been removed, and its mapping may not be opened.
    #[error("{} was removed, and reading its mapping takes root's rights", path.display())]
    Deleted {
        /// The file, as the process saw it.
        path: PathBuf,
    },
    /// It is a device, a pipe or the like.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// The file, as the process sees it.
        path: PathBuf,
    },
    /// It could be opened, but is not an ELF file that makes sense.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file, as the process sees it.
        path: PathBuf,
    },
    /// The mapping has no file.
    #[error("the mapping has no file")]
    Anonymous,
}

impl OpenError {
    /// Whether more rights would help.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Open { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Deleted { .. } => true,
            Self::NotRegular { .. } | Self::Damaged { .. } | Self::Anonymous => false,
        }
    }
}
