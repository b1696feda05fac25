//! How far native walks came.

use super::indices::{ExecutableId, ProcessIndex};

/// How far the native walks of a process's samples came. Samples that were not walked, as those of
/// the kernel's own threads, are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindStats {
    /// The process.
    pub process: ProcessIndex,
    /// Samples whose native frames were looked for.
    pub walked: u64,
    /// Those of them whose frames lead to the process's entry or the thread's start.
    pub complete: u64,
    /// How far the others came, in samples: the most frequent first, at most [`Self::MAX_LAST_FRAMES`].
    pub incomplete: Vec<(LastFrame, u64)>,
}

impl UnwindStats {
    /// Most different ends of walks that are kept.
    pub const MAX_LAST_FRAMES: usize = 10;
}

/// How far a walk came that did not reach the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LastFrame {
    /// No native frame is known.
    NoFrame,
    /// The last frame is an evaluation loop of Python.
    EvaluationLoop,
    /// The last frame lies in this.
    Executable(ExecutableId),
}
