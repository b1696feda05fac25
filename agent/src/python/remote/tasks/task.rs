//! What is read of tasks.

use super::super::Frame;

/// The tasks of a process.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// Those that were read.
    pub found: Vec<Task>,
    /// Tasks that ended or changed while they were read, which are left out.
    pub changed: u64,
    /// Tasks that exceed the limit.
    pub more: u64,
    /// Whether there may be others than these: a list could not be followed to its end, or the time was over.
    pub is_cut: bool,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The address of the object, which tells tasks of the same name apart.
    pub address: u64,
    /// Its name.
    pub name: String,
    /// The id of the thread whose loop runs it, in the process's PID namespace, else of the one that created it;
    /// [`None`] where that has ended.
    pub thread: Option<u32>,
    /// What it does; [`None`] where it changed while it was read.
    pub state: Option<TaskState>,
    /// The function that runs or waits, then those that await it; [`None`] where they changed while they were read.
    pub frames: Option<Vec<Frame>>,
    /// Whether functions are missing before the first one.
    pub is_cut: bool,
    /// The tasks that await it, also by a future (`asyncio.gather`).
    pub awaited_by: Vec<Awaiter>,
}

/// A task that awaits another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaiter {
    /// The address of the object.
    pub address: u64,
    /// Its name.
    pub name: String,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Its coroutine was not started.
    Created,
    /// It runs on its thread.
    Running,
    /// It awaits something.
    Waiting,
}
