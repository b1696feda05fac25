//! Statistics of native unwinding.

use super::indices::{ExecutableId, ProcessIndex};

/// Statistics of native unwinding of a process. Samples without user-space frames, such as those of
/// kernel threads, are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindStats {
    /// The process.
    pub process: ProcessIndex,
    /// Samples whose native stack was unwound.
    pub walked: u64,
    /// Samples whose native stack reaches the entry point of the process or the thread.
    pub complete: u64,
    /// Samples of incomplete native stacks by their last frame: the most frequent first, at most
    /// [`Self::MAX_LAST_FRAMES`].
    pub incomplete: Vec<(LastFrame, u64)>,
}

impl UnwindStats {
    /// Most entries of [`Self::incomplete`].
    pub const MAX_LAST_FRAMES: usize = 10;
}

/// Last frame of an incomplete native stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LastFrame {
    /// There is no native frame.
    NoFrame,
    /// An evaluation loop of CPython.
    EvaluationLoop,
    /// A frame in this executable.
    Executable(ExecutableId),
}
