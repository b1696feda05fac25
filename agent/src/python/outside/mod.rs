//! The stacks of all threads of a process, read once from the outside.
//!
//! This takes the place of the kernel half: it drives the same walk, within the same limits, and
//! what it reads becomes the same records, which are decoded as those of the kernel half are.
//!
//! Invariants: the process is never stopped, so a thread that runs meanwhile may be seen at a
//! place between two others, and [`ThreadStack::end`] says where the walk of its frames ended;
//! nothing is read without a bound.

mod list;
mod memory;
mod name;
mod stack;

use std::{num::NonZeroU32, sync::Arc};

use agent_common::{
    layout::Layout,
    limits::MAX_THREADS,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
    record::PythonUnwindStatus,
};
use thiserror::Error;

use super::Interpreter;
use crate::process::{self, Process};

/// How often the list of threads is read when it changes meanwhile.
const ATTEMPTS: usize = 5;

/// Where an interpreter is, and how it is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// See [`Interpreter::interpreters_head`].
    pub interpreters_head: UserAddr,
    /// See [`Interpreter::gil_holder`].
    pub gil_holder: Option<UserAddr>,
    /// Where its fields are.
    pub layout: Layout,
}

impl From<&Interpreter> for Target {
    fn from(interpreter: &Interpreter) -> Self {
        Self {
            interpreters_head: UserAddr(interpreter.interpreters_head),
            gil_holder: interpreter.gil_holder.map(UserAddr),
            layout: interpreter.layout,
        }
    }
}

/// A thread and the frames that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// What `pthread_self()` is in the thread.
    pub thread_id: u64,
    /// `threading.Thread.name`, where the thread is one whose name is known.
    pub name: Option<String>,
    /// Its states: one in each interpreter that it has entered, the newest interpreter first.
    ///
    /// `_xxsubinterpreters.run_string` (3.8 to 3.12) runs code on the state of the thread that
    /// made the interpreter, whichever thread calls it, and nothing in that state says so.
    pub states: Vec<ThreadState>,
    /// Whether it holds the GIL, or is attached where there is none; [`None`] when that could
    /// not be learned.
    pub is_attached: Option<bool>,
    /// The frames in all of its states, leaf first.
    pub frames: Vec<Frame>,
    /// Which of them run in one evaluation loop, where that does not differ from the frames; leaf
    /// first.
    pub runs: Vec<Run>,
    /// After how many of them others were left out.
    pub gap: Option<usize>,
    /// Where the walk ended.
    pub end: PythonUnwindStatus,
}

/// Frames that run in one evaluation loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// An address within the native frame of the loop.
    pub address: UserAddr,
    /// Frames from the leaf up to the end of the run, with those that were left out.
    pub depth: usize,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it runs; [`None`] when that could not be read.
    pub function: Option<Arc<Function>>,
    /// The line that it is in; [`None`] where the interpreter has none either.
    pub line: Option<NonZeroU32>,
}

/// What a code object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Qualified name where the version has one.
    pub name: String,
    /// File as the interpreter names it.
    pub file: String,
    /// First line of its source.
    pub first_line: Option<NonZeroU32>,
}

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

/// Reads the stacks of all threads of a process, newest interpreter and newest thread first.
///
/// # Errors
///
/// When its memory may not be read, or when the list of its threads cannot be followed.
pub fn threads(process: &Process, interpreter: &Interpreter) -> Result<Vec<ThreadStack>, Error> {
    let memory = process.memory()?;
    let pid = process.pid();
    read(memory, &interpreter.into()).map_err(|why| match why {
        Unreadable::List(address) => Error::List { pid, address },
        Unreadable::TooManyThreads => Error::TooManyThreads { pid },
    })
}

/// Why no stacks could be read from a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The list of threads cannot be followed further than this address.
    List(UserAddr),
    /// The list of threads has no end.
    TooManyThreads,
}

/// Reads the stacks of all threads in a memory, as [`threads`] does.
///
/// # Errors
///
/// When the list of threads cannot be followed.
pub fn read<M: UserMemory>(memory: &M, target: &Target) -> Result<Vec<ThreadStack>, Unreadable> {
    let mut list = list::threads(memory, target);
    for _ in 1..ATTEMPTS {
        if list.is_ok() {
            break;
        }
        list = list::threads(memory, target);
    }
    let mut reader = stack::Reader::new(memory, target);
    Ok(list?
        .into_iter()
        .map(|(thread_id, states)| reader.read(thread_id, states))
        .collect())
}
