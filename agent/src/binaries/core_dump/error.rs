//! Why a file cannot be read as a core dump.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::process::OpenError;

/// Why a file cannot be read as a core dump; each message says what to do.
#[derive(Debug, Error)]
pub enum CoreError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error of the call.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "{} is not a core dump: name a file that the kernel, gcore or coredumpctl dump has written",
        path.display()
    )]
    NotCore {
        /// Its path.
        path: PathBuf,
    },
    /// It is a program or a library.
    #[error(
        "{} is a program or a library, not a core dump: name a file that the kernel, gcore or coredumpctl dump has written",
        path.display()
    )]
    Program {
        /// Its path.
        path: PathBuf,
    },
    /// It is compressed.
    #[error(
        "{} is compressed: decompress it first with {program}, or have coredumpctl dump write it",
        path.display()
    )]
    Compressed {
        /// Its path.
        path: PathBuf,
        /// The program that does.
        program: &'static str,
    },
    /// It is of a program of another machine.
    #[error(
        "{} is of a program for {machine}, and this agent reads those for {}: use the agent of that machine",
        path.display(),
        std::env::consts::ARCH
    )]
    OtherMachine {
        /// Its path.
        path: PathBuf,
        /// What its header says.
        machine: String,
    },
    /// It is of a 32-bit program.
    #[error("{} is of a 32-bit program, of which no stacks can be read; 64-bit CPython is supported", path.display())]
    Not64Bit {
        /// Its path.
        path: PathBuf,
    },
    /// It ends before what is needed.
    #[error(
        "{} ends within its own headers: have it written again, with enough space on the disk and ulimit -c unlimited",
        path.display()
    )]
    Truncated {
        /// Its path.
        path: PathBuf,
    },
    /// It has no threads.
    #[error(
        "{} does not say which threads there were: have it written again by the kernel or by gcore",
        path.display()
    )]
    NoThreads {
        /// Its path.
        path: PathBuf,
    },
    /// Something exceeds its limit.
    #[error("{} has {count} {what}, and at most {limit} are read", path.display())]
    TooMany {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The limit.
        limit: u64,
    },
}
