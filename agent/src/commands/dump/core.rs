//! The stacks of a core dump, in the form of those of a process.
//!
//! Invariant: nothing is looked up by ids of processes and threads, which are those of others by now.

use std::{collections::HashMap, path::Path, process::ExitCode, sync::Arc, time::Duration};

use agent_common::{
    layout::GilStyle,
    record::{NativeUnwindStatus, PythonUnwindStatus},
};
use anyhow::{Result, anyhow, bail};

use super::{
    capture::limit_look_ups,
    document::{Document, DumpedCore},
    frames::{DumpedFrame, DumpedKind},
    locals,
    show::show,
    source_lines,
    taken::{Capture, FoundProcess, TakenFrom, shown},
    tasks, variables,
};
use crate::{
    aggregate::{incomplete_marker, unwind_marker},
    binaries::core_dump::CoreDump,
    commands::{cli::CoreOptions, record::SYMBOL_BYTES},
    profile::Process,
    python::{Detector, Error, Interpreter, remote::tasks::tasks_in},
    session::{CoreProfile, memory, read_core},
    symbolize::NativeSymbolizer,
    text::plural,
    threads::CoreThreads,
    workers::Workers,
};

/// What stands for frames behind memory that has other contents than frames have.
const DAMAGED: &str = "[incomplete: the frames do not add up]";

/// What stands for native frames that are found by the call-frame information of a file, where that cannot be read.
const FILE_MISSING: &str = "[native frames unknown: the file is missing or has changed]";

/// What all stacks lack where native frames are not wanted.
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
    memory::limit_arenas();
    let interpreter = match Detector::default().detect(&*core) {
        Ok(interpreter) => Some(interpreter),
        Err(Error::NotPython { files: 1.., .. }) if options.native.is_some() => None,
        Err(error) => bail!("{}", detection_error(options, &core, &error)),
    };
    let native = options.native.map(|frames| {
        let mut native = NativeSymbolizer::new(SYMBOL_BYTES, Workers::default());
        limit_look_ups(&mut native, frames);
        native
    });
    let process = process(&core, interpreter.as_ref());
    let read = read_core(
        &*core,
        process.clone(),
        interpreter.as_ref(),
        native,
        &shown(),
    );
    let CoreProfile { profile, threads } = read;
    let CoreThreads {
        threads,
        deadlocks,
        list_error,
        states,
    } = threads;
    let capture = Capture {
        from: TakenFrom::CoreDump {
            crashed: signal_tid(&core),
        },
        profile,
        threads,
        deadlocks,
        processes: HashMap::from([(
            core.pid(),
            FoundProcess {
                process,
                command_line: Some(core.command_line()),
            },
        )]),
        variables: HashMap::new(),
        duration: Duration::ZERO,
        has_gil: interpreter.as_ref().is_some_and(tells_gil_holder),
        note: options.native.is_none().then(|| NOTE.to_owned()),
    };
    let mut document = Document::new(&capture, options.native.unwrap_or_default());
    for frame in frames_of(&mut document) {
        name_marker(frame);
    }
    if options.tasks {
        add_tasks(&core, interpreter.as_ref(), &mut document);
    }
    if let Some(interpreter) = &interpreter
        && let Some(characters) = options.locals
    {
        let states = states.iter();
        let states = states.map(|(tid, (id, states))| (*tid, *id, &**states));
        let found = variables::of_core(&*core, interpreter, core.pid(), states, characters);
        locals::add(&mut document, &found);
    }
    if options.source {
        source_lines::add_of_core(&mut document, &core);
    }
    // At last: what is missing is known of what was wanted.
    document.core = Some(dumped_core(options, &core, list_error.is_some()));
    show(&document, options.json.into())?;
    Ok(ExitCode::SUCCESS)
}

/// What profiles have of the process.
fn process(core: &CoreDump, interpreter: Option<&Interpreter>) -> Process {
    let runtime = interpreter.map(|interpreter| format!("CPython {}", interpreter.version));
    Process {
        pid: core.pid(),
        name: core.name().to_owned(),
        executable: core.executable().to_owned(),
        is_python: interpreter.is_some(),
        runtime: runtime.unwrap_or_default(),
        ..Process::default()
    }
}

/// Whether it is known which thread holds the GIL.
fn tells_gil_holder(interpreter: &Interpreter) -> bool {
    let is_in_threads = interpreter.layout.interpreter.gil_style == GilStyle::IN_THREAD;
    !interpreter.flavour.is_free_threaded && (is_in_threads || interpreter.gil_holder.is_some())
}

fn add_tasks(core: &CoreDump, interpreter: Option<&Interpreter>, document: &mut Document) {
    let Some(process) = document.processes.first_mut() else {
        return;
    };
    let tids = core.threads().iter().map(|thread| (thread.tid, thread.tid));
    let read = match interpreter {
        Some(interpreter) => tasks_in(|| Ok(core), interpreter).map_err(|why| why.to_string()),
        None => Err("it is not Python".to_owned()),
    };
    (process.tasks, process.tasks_note) =
        tasks::dumped_all(read.map(|tasks| (tasks, tids.collect())));
}

fn frames_of(document: &mut Document) -> impl Iterator<Item = &mut DumpedFrame> {
    let processes = document.processes.iter_mut();
    let threads = processes.flat_map(|process| &mut process.threads);
    threads
        .filter_map(|thread| thread.frames.as_mut())
        .flatten()
}

/// Says of missing frames why they are missing in a core dump, where that differs from a process that runs.
fn name_marker(frame: &mut DumpedFrame) {
    let name = frame.function.as_deref().unwrap_or_default();
    let torn = incomplete_marker(PythonUnwindStatus::TORN);
    let other = if frame.kind != DumpedKind::Marker {
        return;
    } else if name == torn {
        DAMAGED
    } else if Some(name) == unwind_marker(NativeUnwindStatus::NO_TABLE) {
        FILE_MISSING
    } else {
        return;
    };
    frame.function = Some(other.to_owned());
}

/// Why there is no interpreter, and what to do.
fn detection_error(options: &CoreOptions, core: &CoreDump, error: &Error) -> String {
    let file = options.file.display();
    if !core.has_files() {
        return format!(
            "the core dump {file} does not say which files the process had mapped, without which nothing can be found in \
             it: have it written again, by the kernel or by gcore"
        );
    }
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

/// The thread that has received the signal for which the dump was written.
fn signal_tid(core: &CoreDump) -> Option<u32> {
    let first = core.threads().first();
    first.filter(|_| core.signal().is_some()).map(|it| it.tid)
}

/// What is known of the core dump itself.
fn dumped_core(options: &CoreOptions, core: &CoreDump, is_list_cut: bool) -> DumpedCore {
    let signal = core.signal();
    DumpedCore {
        file: options.file.to_string_lossy().into_owned(),
        signal: signal.map(|signal| signal_name(signal.number)),
        signal_tid: signal_tid(core),
        signal_address: signal
            .and_then(|signal| signal.address)
            .map(|address| format!("{address:#x}")),
        missing: missing(core, is_list_cut),
    }
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
fn missing(core: &CoreDump, is_list_cut: bool) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((there, whole)) = core.truncation() {
        parts.push(format!(
            "the core dump is truncated after {there} of {whole} bytes"
        ));
    } else if core.has_lost_notes() {
        parts.push("some of the notes of the core dump are malformed".to_owned());
    }
    if is_list_cut {
        parts.push(
            "the list of Python's threads could not be followed to its end, so that others have no Python frames"
                .to_owned(),
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
