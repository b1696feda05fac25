//! The tasks of asyncio, from 3.14 on, read while the process runs.
//!
//! Each state of a thread has a list of the tasks that were created there, and that of an interpreter those of
//! threads that have ended. Tasks are read one after another, so two tasks are not of the same instant, but each is.
//!
//! Invariants: the process is never stopped and is untrusted; loops, lengths and time are bounded; what changes while it is read
//! is read again, and left out and counted where it does not settle.

mod awaiters;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod image;
mod layout;
mod list;
mod modules;
mod objects;
mod reader;
mod sampled;
mod stack;
mod task;
mod types;

use std::time::{Duration, Instant};

use agent_common::memory::UserMemory;

use self::reader::Reader;
use super::Target;
use crate::{
    process::Process,
    python::{
        Interpreter, asyncio::AsyncioOffsets, coroutines::CoroutineFacts, versions::series_of,
    },
};

pub use self::{
    error::TasksError,
    sampled::{SampledTasks, Sampler, TaskActivity, TaskStack},
    task::{Task, TaskState, Tasks},
};

/// Time to read the tasks of a process.
const LIMIT: Duration = Duration::from_secs(5);

/// Reads the tasks of a process.
///
/// # Errors
///
/// When its Python has no tasks that can be read, or its memory cannot be read.
pub fn tasks(process: &Process, interpreter: &Interpreter) -> Result<Tasks, TasksError> {
    tasks_in(|| Ok(process.memory()?), interpreter)
}

/// Reads the tasks of a process whose memory `memory` gives.
///
/// # Errors
///
/// As for [`tasks`].
pub fn tasks_in<'a, M: UserMemory + 'a>(
    memory: impl FnOnce() -> Result<&'a M, TasksError>,
    interpreter: &Interpreter,
) -> Result<Tasks, TasksError> {
    let TaskLocation { offsets, facts } = TaskLocation::of(interpreter)?;
    read(memory()?, &interpreter.into(), offsets, facts)
}

/// Where a process has its tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskLocation {
    offsets: AsyncioOffsets,
    facts: &'static CoroutineFacts,
}

impl TaskLocation {
    /// That of the processes of an interpreter.
    ///
    /// # Errors
    ///
    /// When it has no tasks that can be read.
    pub fn of(interpreter: &Interpreter) -> Result<Self, TasksError> {
        let version = interpreter.version;
        let Some(series) = series_of(version) else {
            return Err(TasksError::TooNew { version });
        };
        let Some(facts) = &series.coroutines else {
            return Err(TasksError::TooOld { version });
        };
        let offsets = interpreter.asyncio.ok_or(TasksError::NotLoaded)?;
        Ok(Self { offsets, facts })
    }
}

/// Reads tasks from any memory, as [`tasks`] does.
///
/// # Errors
///
/// When the offsets of the interpreter or the list of its threads cannot be read, or asyncio was not imported.
pub fn read<M: UserMemory>(
    memory: &M,
    target: &Target,
    offsets: AsyncioOffsets,
    facts: &CoroutineFacts,
) -> Result<Tasks, TasksError> {
    let (reader, states) = Reader::open(memory, target, offsets, facts)?;
    reader.read(&states, Instant::now() + LIMIT)
}

#[cfg(test)]
mod tests;
