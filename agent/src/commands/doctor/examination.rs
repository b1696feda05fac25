//! Examines a process from outside.
//!
//! Invariant: what the process controls is read by worker threads with the budgets of a capture, so that
//! a process which cannot be read in time does not hold up the report, and is named in it.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::{Instant, timeout_at};

use agent_common::record::PythonUnwindStatus;

use super::{
    left_out::LeftOut,
    native::NativeCode,
    report::{About, Report, Threads},
};
use crate::{
    bpf::requirements,
    process::{self, Process, attach_hint},
    python::{
        self, Interpreter, Version,
        remote::{self, ThreadStack},
    },
    session::Examinations,
    targets::examiner::Finding,
    workers::{Lane, Subject, Workers},
};

/// Time for the description of a process, and for the stacks of its threads.
const LIMIT: Duration = Duration::from_secs(10);

/// Most descendants of a process without Python that are examined, and the time for all of them.
const MAX_DESCENDANTS: usize = 64;
const DESCENDANTS_LIMIT: Duration = Duration::from_secs(10);

/// Examines a process from outside.
///
/// Must be called within a tokio runtime.
pub async fn examine(pid: u32) -> Report {
    let examinations = Examinations::new(true);
    let mut report = Report {
        pid,
        requirements: requirements(),
        process: Ok(About::default()),
        python: None,
        threads: None,
        descendants: Vec::new(),
        native: None,
        measured: None,
        left_out: LeftOut::default(),
    };
    match examinations.examine(pid).await {
        Ok(finding) => report.describe(&examinations, finding).await,
        Err(error) => report.process = Err(error),
    }
    report
        .left_out
        .add(examinations.workers.status().quarantined);
    report
}

impl Report {
    /// Adds what an examination has found.
    async fn describe(&mut self, examinations: &Examinations, finding: Finding) {
        let Finding {
            interpreter,
            mapped,
            opened,
            ..
        } = finding;
        let opened = Arc::new(opened);
        let python = interpreter.map(|it| *it);
        let workers = &examinations.workers;
        self.process = read(workers, &opened, Subject::process(self.pid), About::of).await;
        if let Ok(interpreter) = &python {
            let interpreter = interpreter.clone();
            let threads = move |process: &Process| Threads::find(process, &interpreter);
            let threads = read(workers, &opened, Subject::stacks(self.pid), threads).await;
            self.threads = Some(threads.and_then(|it| Ok(it?)));
        }
        if let Err(python::Error::NotPython { .. }) = &python {
            self.descendants = python_descendants(self.pid).await;
        }
        self.python = Some(python);
        self.native = Some(NativeCode::find(examinations, &opened, mapped).await);
    }
}

/// What a worker reads of a process.
async fn read<T: Send + 'static>(
    workers: &Workers,
    process: &Arc<Process>,
    subject: Subject,
    read: impl FnOnce(&Process) -> T + Send + 'static,
) -> Result<T> {
    let process = Arc::clone(process);
    let pending = workers.submit(Lane::Processes, subject, LIMIT, move || read(&process));
    Ok(pending.result().await?)
}

impl Threads {
    fn find(process: &Process, interpreter: &Interpreter) -> Result<Self, remote::Error> {
        let stacks = remote::threads(process, interpreter)?;
        let is_truncated = |stack: &&ThreadStack| {
            !matches!(
                stack.end,
                PythonUnwindStatus::COMPLETE | PythonUnwindStatus::NO_FRAME
            )
        };
        let truncated = stacks.iter().filter(is_truncated).count();
        Ok(Self {
            complete: stacks.len() - truncated,
            truncated,
            frames: stacks.iter().map(|stack| stack.frames.len()).sum(),
        })
    }
}

impl About {
    fn of(process: &Process) -> Self {
        Self {
            name: process.comm().to_owned(),
            executable: process.executable().to_owned(),
            namespace_pids: process.namespace_pids().to_vec(),
            has_own_mounts: process.has_own_mounts().ok(),
            unreadable: match process.memory() {
                Err(process::Error::Denied { .. }) => Some(attach_hint(process.pid())),
                Ok(_) | Err(_) => None,
            },
        }
    }
}

/// The descendants that run Python, with their versions: those that can be examined in time.
async fn python_descendants(pid: u32) -> Vec<(u32, Version)> {
    let examinations = Examinations::new(false);
    let ends = Instant::now() + DESCENDANTS_LIMIT;
    let mut found = Vec::new();
    for descendant in process::descendants(&[pid]).iter().take(MAX_DESCENDANTS) {
        match timeout_at(ends, examinations.examine(descendant.pid)).await {
            Ok(Ok(Finding {
                interpreter: Ok(python),
                ..
            })) => found.push((descendant.pid, python.version)),
            // It is not Python, or has exited.
            Ok(_) => {}
            Err(_) => break,
        }
    }
    found
}
