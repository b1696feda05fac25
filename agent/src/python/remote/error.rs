//! Why no stacks could be read.

use agent_common::{limits::MAX_THREADS, memory::UserAddr};
use thiserror::Error;

use crate::process;

/// Why the threads of a process could not be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The process could not be looked at.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The list of its threads makes no sense.
    #[error(
        "cannot read the list of threads of process {pid}; if the process has just been started \
         or is about to end, try again"
    )]
    List {
        /// The process.
        pid: u32,
        /// Where the list could not be followed.
        address: UserAddr,
    },
    /// The list of its threads has no end.
    #[error("process {pid} has more than {MAX_THREADS} threads, which is not supported")]
    TooManyThreads {
        /// The process.
        pid: u32,
    },
}

/// Why no stacks could be read from a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadListError {
    /// The list of threads cannot be followed further than this address.
    List(UserAddr),
    /// The list of threads has no end.
    TooManyThreads,
}
