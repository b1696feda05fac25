//! Reads the arguments and local variables of threads that do not run.
//!
//! Invariant: variables are used only if their thread was on no processor and made no context switch from before the
//! first read until after the last one.

use std::collections::HashMap;

use crate::{
    process::{Process, switches_at_rest},
    python::{
        Detector, Interpreter,
        remote::{
            Target,
            locals::{FrameVariables, LocalsReader},
            thread_states,
        },
        versions::series_of,
    },
    threads::{Rest, SnapshotThread},
};

/// Times that the variables of a thread are read that runs for short times.
const ATTEMPTS: u32 = 5;

/// Bytes of values of all threads, after which there are none.
const MAX_BYTES: usize = 16 << 20;

/// Why a thread that runs has no variables.
pub(super) const RAN: &str = "not read, the thread ran";

/// The variables of the frames of a thread, the innermost first, or why there are none.
pub(super) type Found = Result<Vec<FrameVariables>, String>;

/// Reads the variables of threads, by process and thread, at most so many characters of a value.
pub(super) fn read(
    threads: &[SnapshotThread],
    mut interpreters: HashMap<u32, Interpreter>,
    characters: usize,
) -> HashMap<(u32, u32), Found> {
    let detector = Detector::default();
    let mut found = HashMap::new();
    let mut bytes_left = MAX_BYTES;
    for threads in threads.chunk_by(|one, next| one.tgid == next.tgid) {
        let pid = threads[0].tgid;
        let interpreter = interpreters.remove(&pid);
        let variables = of_process(
            pid,
            threads,
            interpreter,
            &detector,
            characters,
            &mut bytes_left,
        );
        let variables = variables.unwrap_or_else(|why| {
            let all = threads.iter().map(|thread| (thread.tid, Err(why.clone())));
            all.collect()
        });
        found.extend(variables.into_iter().map(|(tid, it)| ((pid, tid), it)));
    }
    found
}

/// The same of one process, by thread.
///
/// # Errors
///
/// A sentence that says why there are none.
fn of_process(
    pid: u32,
    threads: &[SnapshotThread],
    interpreter: Option<Interpreter>,
    detector: &Detector,
    characters: usize,
    bytes_left: &mut usize,
) -> Result<Vec<(u32, Found)>, String> {
    let unread = |why: &dyn ToString| format!("not read: {}", why.to_string());
    let process = Process::open(pid).map_err(|why| unread(&why))?;
    let interpreter = match interpreter {
        Some(interpreter) => interpreter,
        None => detector.detect(&process).map_err(|why| unread(&why))?,
    };
    let version = interpreter.version;
    let Some(series) = series_of(version) else {
        return Err(format!("not read, Python {version} is too new"));
    };
    let memory = process.memory().map_err(|why| unread(&why))?;
    let target = Target::from(&interpreter);
    let mut reader = LocalsReader::new(memory, &target.layout, &series.variables, characters);
    let read_one = |thread: &SnapshotThread| {
        let rest = thread.stack.and_then(|stack| stack.rest);
        let Some(Rest { thread_id, .. }) = rest else {
            return Err(RAN.to_owned());
        };
        if *bytes_left == 0 {
            return Err("not read, others are as long as can be".to_owned());
        }
        let mut why = RAN;
        for _ in 0..ATTEMPTS {
            let Some(before) = switches_at_rest(pid, thread.tid) else {
                continue;
            };
            let states = thread_states(memory, &target).unwrap_or_default();
            let states = states.into_iter().find(|(id, _)| *id == thread_id);
            let frames = match states {
                Some((_, states)) => reader.frames(thread_id, &states),
                None => Ok(Vec::new()),
            };
            if switches_at_rest(pid, thread.tid) != Some(before) {
                continue;
            }
            match frames {
                Ok(frames) => {
                    *bytes_left = bytes_left.saturating_sub(bytes(&frames));
                    return Ok(frames);
                }
                Err(_) => why = "not read, frames cannot be followed",
            }
        }
        Err(why.to_owned())
    };
    let mut read_one = read_one;
    let found = threads.iter().map(|thread| (thread.tid, read_one(thread)));
    Ok(found.collect())
}

/// Bytes of the values of frames.
fn bytes(frames: &[FrameVariables]) -> usize {
    let variables = frames.iter().filter_map(|frame| frame.variables.as_ref());
    let all = variables.flat_map(|it| it.arguments.iter().chain(&it.locals));
    all.map(|variable| variable.name.len() + variable.value.len())
        .sum()
}
