//! The tasks of asyncio of each process, read while it runs.

use std::collections::HashMap;

use serde::Serialize;

use super::frames::{DumpedFrame, DumpedKind, DumpedVariables};
use crate::{
    process::{Process, thread_ids},
    python::{
        Detector,
        remote::{
            Frame,
            tasks::{self, Task, TaskState, Tasks},
        },
    },
    text::plural,
};

/// What stands for functions that are missing.
const LEFT_OUT: &str = "[frames left out]";

/// What stands for a function whose code object cannot be read.
const UNREAD: &str = "[unread function]";

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DumpedTask {
    /// The address of the object, in hexadecimal: names may be the same.
    pub(super) id: String,
    /// Its name, at most 100 characters.
    pub(super) name: String,
    /// The thread whose loop runs it, else the one that created it; null where that has ended.
    pub(super) tid: Option<u32>,
    /// What it does; null where it changed while it was read.
    pub(super) state: Option<DumpedTaskState>,
    /// The tasks that wait for it.
    pub(super) awaited_by: Vec<DumpedAwaiter>,
    /// Its coroutines, the innermost first; null where they changed while they were read.
    pub(super) frames: Option<Vec<DumpedFrame>>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DumpedTaskState {
    /// It was not started.
    Created,
    /// It runs on its thread.
    Running,
    Waiting,
}

/// A task that waits for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DumpedAwaiter {
    pub(super) id: String,
    pub(super) name: String,
}

/// The tasks of a process, and which are missing, or why there are none.
pub(super) fn of_process(
    detector: &Detector,
    pid: u32,
) -> (Option<Vec<DumpedTask>>, Option<String>) {
    dumped_all(read(detector, pid))
}

/// The tasks that were read of a process with these ids of threads, and which are missing, or why there are none.
pub(super) fn dumped_all(
    read: Result<(Tasks, HashMap<u32, u32>), String>,
) -> (Option<Vec<DumpedTask>>, Option<String>) {
    match read {
        Ok((tasks, tids)) => {
            let note = note(&tasks);
            let tasks = tasks.found.into_iter().map(|task| dumped(task, &tids));
            (Some(tasks.collect()), note)
        }
        Err(why) => (None, Some(format!("there are none: {why}"))),
    }
}

/// The tasks of a process, and the ids of its threads for the agent by those for itself.
///
/// # Errors
///
/// A sentence that says why there are none.
fn read(detector: &Detector, pid: u32) -> Result<(Tasks, HashMap<u32, u32>), String> {
    let process = Process::open(pid).map_err(|why| why.to_string())?;
    let interpreter = detector.detect(&process).map_err(|why| why.to_string())?;
    let tasks = tasks::tasks(&process, &interpreter).map_err(|why| why.to_string())?;
    let tids = thread_ids(&process);
    Ok((tasks, tids))
}

/// Which tasks are missing.
fn note(tasks: &Tasks) -> Option<String> {
    let mut parts = Vec::new();
    if tasks.more > 0 {
        parts.push(format!("{} more are not shown", tasks.more));
    }
    if tasks.changed > 0 {
        let are = plural(tasks.changed, "task is", "tasks are");
        parts.push(format!(
            "{} {are} left out, for ending or changing while being read",
            tasks.changed
        ));
    }
    if tasks.is_cut {
        parts.push("there may be others, which could not be read in time or in order".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn dumped(task: Task, tids: &HashMap<u32, u32>) -> DumpedTask {
    let id = |address: u64| format!("{address:#x}");
    let awaited_by = task.awaited_by.into_iter();
    let is_cut = task.is_cut;
    DumpedTask {
        id: id(task.address),
        name: task.name,
        tid: task.thread.and_then(|thread| tids.get(&thread).copied()),
        state: task.state.map(|state| match state {
            TaskState::Created => DumpedTaskState::Created,
            TaskState::Running => DumpedTaskState::Running,
            TaskState::Waiting => DumpedTaskState::Waiting,
        }),
        awaited_by: awaited_by
            .map(|awaiter| DumpedAwaiter {
                id: id(awaiter.address),
                name: awaiter.name,
            })
            .collect(),
        frames: task.frames.map(|frames| {
            let missing = is_cut.then(|| marker(LEFT_OUT));
            let frames = frames.into_iter().map(dumped_frame);
            missing.into_iter().chain(frames).collect()
        }),
    }
}

/// A frame of Python.
fn dumped_frame(frame: Frame) -> DumpedFrame {
    let Some(function) = frame.function else {
        return marker(UNREAD);
    };
    DumpedFrame {
        kind: DumpedKind::Python,
        file: Some(function.file.clone()).filter(|file| !file.is_empty()),
        line: frame.line.map(Into::into),
        first_line: function.first_line.map(Into::into),
        ..marker(&function.name)
    }
}

/// A frame that stands for missing ones.
fn marker(text: &str) -> DumpedFrame {
    DumpedFrame {
        kind: DumpedKind::Marker,
        function: Some(text.to_owned()),
        file: None,
        line: None,
        first_line: None,
        source: None,
        executable: None,
        address: None,
        inlined: false,
        variables: DumpedVariables::default(),
    }
}

#[cfg(test)]
pub(super) mod fixtures {
    use super::*;

    /// Tasks that are awaited by those of these indices.
    pub(in crate::commands::dump) fn tasks(awaiters: &[&[usize]]) -> Vec<DumpedTask> {
        let awaiter = |nth: &usize| DumpedAwaiter {
            id: format!("{nth:#x}"),
            name: format!("task {nth}"),
        };
        let tasks = awaiters
            .iter()
            .enumerate()
            .map(|(nth, awaiters)| DumpedTask {
                id: format!("{nth:#x}"),
                name: format!("task {nth}"),
                tid: Some(7),
                state: Some(DumpedTaskState::Waiting),
                awaited_by: awaiters.iter().map(awaiter).collect(),
                frames: Some(vec![DumpedFrame {
                    kind: DumpedKind::Python,
                    file: Some("app.py".to_owned()),
                    line: u32::try_from(nth).ok(),
                    ..marker("f")
                }]),
            });
        tasks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(note(&Tasks::default()), None);
        let tasks = Tasks {
            changed: 1,
            more: 2,
            is_cut: true,
            ..Tasks::default()
        };
        let expected = "2 more are not shown; 1 task is left out, for ending or changing while being read; \
                        there may be others, which could not be read in time or in order";
        assert_eq!(note(&tasks).as_deref(), Some(expected));
    }
}
