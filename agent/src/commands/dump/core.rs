//! The stacks of a core dump, in the form of those of a process.
//!
//! Invariant: nothing is looked up by ids of processes and threads, which are those of others by now.

use std::{path::Path, process::ExitCode, sync::Arc};

use agent_common::record::PythonUnwindStatus;
use anyhow::{Result, anyhow, bail};

use super::{
    document::{Document, DumpedCore, DumpedProcess, DumpedThread, SCHEMA, State, Taken, Waiter},
    frames::DumpedFrame,
    locals,
    show::show,
    source_lines,
    tasks::{self, LEFT_OUT, dumped_frame, marker},
    variables,
};
use crate::{
    aggregate::{has_no_python, incomplete_marker, waits_for_work},
    binaries::core_dump::CoreDump,
    commands::cli::CoreOptions,
    profile::Wait,
    python::{
        Detector, Error, Interpreter,
        remote::{ThreadStack, tasks::tasks_in},
    },
    text::plural,
    threads::{CoreThreadState, CoreThreads, core_threads},
};

/// What stands for the stack of a thread without Python.
const NO_PYTHON: &str = "[no Python]";

/// What stands for frames behind memory that has other contents than frames have.
const DAMAGED: &str = "[incomplete: the frames do not add up]";

/// What all stacks lack.
const NOTE: &str = "Python frames only";

/// Most files that are named because they are missing.
const MAX_NAMED: usize = 3;

/// Names of signals that write core dumps, by their numbers on x86-64 and aarch64.
const SIGNALS: [(u32, &str); 12] = [
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

/// Reads a core dump and prints its stacks.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) fn run(options: &CoreOptions) -> Result<ExitCode> {
    // Its causes are in the sentence already.
    let core = CoreDump::open(&options.file, options.root.as_deref());
    let core = core.map_err(|error| anyhow!("{error}"))?;
    let core = Arc::new(core);
    let interpreter = match Detector::default().detect(&*core) {
        Ok(interpreter) => interpreter,
        Err(error) => bail!("{}", detection_error(options, &core, &error)),
    };
    let found = core_threads(&*core, &interpreter);
    let mut document = document(options, &core, &interpreter, &found);
    if let Some(process) = document.processes.first_mut()
        && options.tasks
    {
        let tids = core.threads().iter().map(|thread| (thread.tid, thread.tid));
        let read = tasks_in(|| Ok(&*core), &interpreter);
        let read = read.map(|tasks| (tasks, tids.collect()));
        (process.tasks, process.tasks_note) =
            tasks::dumped_all(read.map_err(|why| why.to_string()));
    }
    if let Some(characters) = options.locals {
        let threads = found.threads.iter().filter_map(|thread| {
            let states = thread.stack.as_ref()?.states.as_slice();
            Some((thread.tid, thread.thread_id?, states))
        });
        let variables = variables::of_core(&*core, &interpreter, core.pid(), threads, characters);
        locals::add(&mut document, &variables);
    }
    if options.source {
        source_lines::add_of_core(&mut document, &core);
    }
    if let Some(dumped) = &mut document.core {
        dumped.missing = missing(&core, &found);
    }
    show(&document, options.json.into())?;
    Ok(ExitCode::SUCCESS)
}

/// Why there is no interpreter, and what to do.
fn detection_error(options: &CoreOptions, core: &CoreDump, error: &Error) -> String {
    let file = options.file.display();
    if core
        .missing_files()
        .chain(core.changed_files())
        .next()
        .is_none()
    {
        return format!("the core dump {file} has no stacks of Python: {error}");
    }
    format!(
        "the core dump {file} can be read only where the files are that the process had mapped: {error}; \
         name a directory with them with --root, as that of the image of its container"
    )
}

fn document(
    options: &CoreOptions,
    core: &CoreDump,
    interpreter: &Interpreter,
    found: &CoreThreads,
) -> Document {
    let pid = core.pid();
    let mut threads: Vec<_> = found
        .threads
        .iter()
        .map(|thread| dumped_thread(core, found, thread))
        .collect();
    threads.sort_by_key(|thread| (thread.tid != pid, thread.tid));
    let process = DumpedProcess {
        pid,
        parent: None,
        name: core.name().to_owned(),
        command_line: Some(core.command_line()),
        executable: core.executable().to_string_lossy().into_owned(),
        runtime: Some(format!("CPython {}", interpreter.version)),
        stopped: false,
        changed_files: Vec::new(),
        threads,
        tasks: None,
        tasks_note: None,
    };
    let deadlocks = found.deadlocks.iter().map(|threads| {
        let waiters = threads.iter().map(|thread| Waiter {
            tid: thread.tid,
            lock: thread.lock.clone(),
        });
        waiters.collect()
    });
    let signal = core.signal();
    let first = core.threads().first();
    Document {
        schema: SCHEMA,
        time: None,
        spread_ms: 0.0,
        duration_ms: 0.0,
        note: Some(NOTE.to_owned()),
        core: Some(DumpedCore {
            file: options.file.to_string_lossy().into_owned(),
            signal: signal.map(|signal| signal_name(signal.number)),
            signal_tid: first.filter(|_| signal.is_some()).map(|first| first.tid),
            signal_address: signal
                .and_then(|signal| signal.address)
                .map(|address| format!("{address:#x}")),
            missing: None,
        }),
        deadlocks: deadlocks.collect(),
        processes: vec![process],
    }
}

/// What is shown of a thread.
fn dumped_thread(core: &CoreDump, found: &CoreThreads, thread: &CoreThreadState) -> DumpedThread {
    let stack = thread.stack.as_ref();
    let wait = Wait::from_reason(thread.wait);
    let name = stack.and_then(|stack| stack.name.clone());
    // The kernel's name of others is not in the dump. A thread without states is not one of Python's.
    let is_main = thread.tid == core.pid();
    let of_main = match stack.map(|stack| stack.frames.is_empty()) {
        Some(false) => "MainThread",
        _ => core.name(),
    };
    let name = name.or_else(|| is_main.then(|| of_main.to_owned()));
    let functions = stack.iter().flat_map(|stack| &stack.frames);
    let functions = functions.map_while(|frame| frame.function.as_deref());
    let is_known = thread.thread_id.is_some() && (stack.is_some() || found.list_error.is_none());
    DumpedThread {
        tid: thread.tid,
        name: name.unwrap_or_default(),
        state: if wait.is_some() {
            State::Waiting
        } else {
            State::Running
        },
        wait: wait.map(Wait::label),
        waiting_ms: None,
        lock: thread.lock.clone(),
        idle: wait.is_some()
            && waits_for_work(thread.wait, functions.map(|it| (&*it.name, &*it.file))),
        holds_gil: thread.holds_gil,
        gil_holder: thread.gil_holder,
        collects_garbage: thread.collects_garbage,
        taken: is_known.then_some(Taken::Core),
        frames: is_known.then(|| stack.map_or_else(|| vec![marker(NO_PYTHON)], frames)),
        locals_note: None,
    }
}

/// The frames of a stack, with a marker where some are missing.
fn frames(stack: &ThreadStack) -> Vec<DumpedFrame> {
    let mut frames: Vec<_> = stack.frames.iter().cloned().map(dumped_frame).collect();
    if let Some(gap) = stack.gap {
        frames.insert(gap.min(frames.len()), marker(LEFT_OUT));
    }
    if has_no_python(stack.end) {
        frames.push(marker(NO_PYTHON));
    } else if stack.end == PythonUnwindStatus::TORN {
        frames.push(marker(DAMAGED));
    } else if stack.end != PythonUnwindStatus::COMPLETE {
        frames.push(marker(incomplete_marker(stack.end)));
    }
    frames
}

/// As `SIGSEGV`.
fn signal_name(number: u32) -> String {
    let known = SIGNALS.iter().find(|(known, _)| *known == number);
    known.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// What of the memory is missing, as far as it was wanted.
fn missing(core: &CoreDump, found: &CoreThreads) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((there, whole)) = core.truncation() {
        parts.push(format!(
            "the core dump is truncated after {there} of {whole} bytes"
        ));
    } else if core.has_lost_notes() {
        parts.push("some of the notes of the core dump are malformed".to_owned());
    }
    if found.list_error.is_some() {
        parts.push(
            "the list of Python's threads could not be followed to its end, so that others have no stack".to_owned(),
        );
    }
    parts.extend(files(core.changed_files(), "has changed", "have changed"));
    parts.extend(files(core.missing_files(), "is not there", "are not there"));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// For example `/usr/lib/libz.so.1 and 2 more files have changed`.
fn files<'a>(paths: impl Iterator<Item = &'a Path>, one: &str, several: &str) -> Option<String> {
    let paths: Vec<_> = paths.map(|path| path.display().to_string()).collect();
    let named = paths[..paths.len().min(MAX_NAMED)].join(", ");
    match (paths.len(), paths.len().saturating_sub(MAX_NAMED)) {
        (0, _) => None,
        (1, _) => Some(format!("{named} {one}")),
        (_, 0) => Some(format!("{named} {several}")),
        (_, more) => {
            let files = plural(more as u64, "more file", "more files");
            Some(format!("{named} and {more} {files} {several}"))
        }
    }
}
