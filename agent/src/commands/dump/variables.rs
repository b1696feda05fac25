//! Reads the arguments and local variables of threads that do not run.
//!
//! Invariant: variables are used only if their thread was on no processor and made no context switch from before the
//! first read until after the last one.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agent_common::{maps::ThreadState, memory::UserMemory};

use crate::{
    process::{Process, TaskFiles},
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

/// Time for all threads, after which there are none.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Why a thread that runs has no variables.
pub(super) const RAN: &str = "not read, the thread ran";

/// The variables of the frames of a thread, the innermost first, or why there are none.
pub(super) type Found = Result<Vec<FrameVariables>, String>;

/// Reads the variables of threads, by process and thread, at most so many characters of a value.
pub(super) fn read(
    threads: &[SnapshotThread],
    interpreters: &HashMap<u32, Interpreter>,
    characters: usize,
) -> HashMap<(u32, u32), Found> {
    let detector = Detector::default();
    let mut found = HashMap::new();
    let mut limits = Limits::new();
    for threads in threads.chunk_by(|one, next| one.tgid == next.tgid) {
        let pid = threads[0].tgid;
        let interpreter = interpreters.get(&pid).cloned();
        let variables = of_process(
            pid,
            threads,
            interpreter,
            &detector,
            characters,
            &mut limits,
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
    limits: &mut Limits,
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
    let list = || -> HashMap<u64, Vec<ThreadState>> {
        let states = thread_states(memory, &target).unwrap_or_default();
        states.into_iter().collect()
    };
    let mut states = list();
    let mut read_one = |thread: &SnapshotThread| {
        let rest = thread.stack.and_then(|stack| stack.rest);
        let Some(Rest { thread_id, .. }) = rest else {
            return Err(RAN.to_owned());
        };
        let files = TaskFiles::open(pid, thread.tid).ok_or(RAN)?;
        let mut why = RAN;
        for attempt in 0..ATTEMPTS {
            if limits.are_reached() {
                return Err("not read, others took too long".to_owned());
            }
            let Some(look) = files.look().filter(|look| look.registers.is_some()) else {
                continue;
            };
            if attempt > 0 {
                states = list();
            }
            let states = states.get(&thread_id).map_or(&[][..], Vec::as_slice);
            let frames = reader.frames(thread_id, states);
            if !files.has_rested(&look.runs) {
                continue;
            }
            match frames {
                Ok(frames) => {
                    limits.count(&frames);
                    return Ok(frames);
                }
                Err(_) => why = "not read, the frames do not add up",
            }
        }
        Err(why.to_owned())
    };
    let found = threads.iter().map(|thread| (thread.tid, read_one(thread)));
    Ok(found.collect())
}

/// Reads the variables of the threads of a core dump, each with its `pthread_self()` and its states.
pub(super) fn of_core<'a, M: UserMemory>(
    memory: &M,
    interpreter: &Interpreter,
    pid: u32,
    threads: impl Iterator<Item = (u32, u64, &'a [ThreadState])>,
    characters: usize,
) -> HashMap<(u32, u32), Found> {
    let version = interpreter.version;
    let series = series_of(version);
    let target = Target::from(interpreter);
    let reader = series
        .map(|series| LocalsReader::new(memory, &target.layout, &series.variables, characters));
    let mut reader = reader.ok_or_else(|| format!("not read, Python {version} is too new"));
    let mut limits = Limits::new();
    let mut read_one = |thread_id, states: &[ThreadState]| {
        let reader = reader.as_mut().map_err(|why| why.clone())?;
        if limits.are_reached() {
            return Err("not read, others took too long".to_owned());
        }
        let frames = reader.frames(thread_id, states);
        let frames = frames.map_err(|_| "not read, the frames do not add up".to_owned())?;
        limits.count(&frames);
        Ok(frames)
    };
    let found = threads.map(|(tid, thread_id, states)| ((pid, tid), read_one(thread_id, states)));
    found.collect()
}

/// What may still be read.
struct Limits {
    bytes: usize,
    end: Instant,
}

impl Limits {
    fn new() -> Self {
        Self {
            bytes: MAX_BYTES,
            end: Instant::now() + MAX_TIME,
        }
    }

    fn are_reached(&self) -> bool {
        self.bytes == 0 || Instant::now() >= self.end
    }

    /// Takes the values of frames off.
    fn count(&mut self, frames: &[FrameVariables]) {
        let variables = frames.iter().filter_map(|frame| frame.variables.as_ref());
        let all = variables.flat_map(|it| it.arguments.iter().chain(&it.locals));
        for variable in all {
            let bytes = variable.name.len() + variable.value.len();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}
