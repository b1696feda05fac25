//! Why tasks cannot be read.

use thiserror::Error;

use crate::{process, python::Version};

/// Why the tasks of a process cannot be read.
#[derive(Debug, Error)]
pub enum TasksError {
    /// The interpreter does not say where its tasks are.
    #[error("tasks are known from Python 3.14 on, and this is CPython {version}")]
    TooOld {
        /// Its version.
        version: Version,
    },
    /// Its coroutines are not known yet.
    #[error("tasks of CPython {version} cannot be read yet")]
    TooNew {
        /// Its version.
        version: Version,
    },
    /// There is no asyncio.
    #[error("the process has not loaded asyncio")]
    NotLoaded,
    /// The process could not be read.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The offsets of its structures are implausible.
    #[error("the interpreter's own description of its structures is implausible")]
    Offsets,
    /// The list of its threads is inconsistent.
    #[error("the list of the threads could not be read; try again")]
    Threads,
}
