//! What is read of a thread.

use std::{num::NonZeroU32, sync::Arc};

use agent_common::{memory::UserAddr, record::WalkEnd, thread::ThreadState};

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
    pub end: WalkEnd,
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
