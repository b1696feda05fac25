//! Errors of reading stacks remotely.

use agent_common::{limits::MAX_THREADS, memory::UserAddr};
use thiserror::Error;

use crate::process;

/// Why the threads of a process could not be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The process could not be read.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The list of its threads is inconsistent.
    #[error(
        "cannot read the list of threads of process {pid}; if the process has just been started \
         or is about to end, try again"
    )]
    List {
        /// PID.
        pid: u32,
        /// Address of the pointer that could not be followed.
        address: UserAddr,
    },
    /// The list of its threads exceeds the limit.
    #[error("process {pid} has more than {MAX_THREADS} threads, which is not supported")]
    TooManyThreads {
        /// PID.
        pid: u32,
    },
}

/// Why the list of threads could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadListError {
    /// The pointer at this address could not be followed.
    List(UserAddr),
    /// The list exceeds the limit.
    TooManyThreads,
}
