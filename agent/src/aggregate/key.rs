//! Keys of the counts of samples.

use agent_common::record::{
    MemoryType, NativeUnwindStatus, ProfileKind, PythonUnwindStatus, WaitReason,
};

/// Key of the counts of a window: samples with equal keys are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SampleKey {
    pub(super) kind: ProfileKind,
    pub(super) thread: ThreadKey,
    pub(super) stack: u64,
    pub(super) end: PythonUnwindStatus,
    pub(super) native_stack: u64,
    pub(super) native_end: NativeUnwindStatus,
    pub(super) holds_gil: bool,
    pub(super) collects_garbage: bool,
    pub(super) wait: WaitReason,
    pub(super) memory: MemoryType,
    /// Hash of the name of the class of the exception that was raised, 0 for none.
    pub(super) exception: u64,
    /// Hash of the name of the task that the thread ran, 0 for none.
    pub(super) task: u64,
    /// Whom it keeps waiting, and for which lock; or for which one it waits itself.
    pub(super) blocked: Blocked,
}

/// Whom a sampled thread keeps waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocked {
    /// The thread of the same process, 0 for none or one that is not told apart.
    pub thread: u32,
    /// The lock for which that waits, or the sampled thread itself, by the hash of its name; 0 for none or an
    /// unknown one.
    pub lock: u64,
    /// Whether that waits because the sampled one has stopped it.
    pub is_stopped: bool,
    /// Hashes of the Python and the native stack of a thread that waits for a lock, by which it is found out whether
    /// it waits for work; 0 for none.
    pub stacks: (u64, u64),
}

/// A thread, identified by process and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadKey {
    pub(super) tgid: u32,
    pub(super) tid: u32,
}
