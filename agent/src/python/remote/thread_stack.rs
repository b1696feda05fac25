//! The stack of a thread.

use std::{num::NonZeroU32, sync::Arc};

use agent_common::{memory::UserAddr, record::WalkEnd, thread::ThreadState};

/// A thread with its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// `pthread_self()` of the thread.
    pub thread_id: u64,
    /// `threading.Thread.name`; [`None`] for other threads and where it could not be read.
    pub name: Option<String>,
    /// Its thread states, one in each interpreter that it has entered, the newest interpreter
    /// first.
    ///
    /// `_xxsubinterpreters.run_string` (3.8 to 3.12) runs code on the state of the thread that
    /// created the interpreter, whichever thread calls it; that cannot be detected.
    pub states: Vec<ThreadState>,
    /// Whether it holds the GIL or, in free-threaded builds, is attached; [`None`] when this could
    /// not be read.
    pub is_attached: Option<bool>,
    /// The frames in all of its states, leaf first.
    pub frames: Vec<Frame>,
    /// Which of them run in one evaluation loop, where that does not differ from the frames; leaf
    /// first.
    pub runs: Vec<Run>,
    /// Number of frames before the gap, where frames were left out.
    pub gap: Option<usize>,
    /// Status of the walk.
    pub end: WalkEnd,
}

/// Frames that run in one call of the evaluation loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// An address within the native frame of the call.
    pub address: UserAddr,
    /// Number of frames from the leaf to the end of the run, including those left out.
    pub depth: usize,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its function; [`None`] when the code object could not be read.
    pub function: Option<Arc<Function>>,
    /// Its current line; [`None`] where the line table has none.
    pub line: Option<NonZeroU32>,
}

/// A Python function, from its code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Qualified name where the version has one.
    pub name: String,
    /// `co_filename`.
    pub file: String,
    /// First line of its source.
    pub first_line: Option<NonZeroU32>,
}
