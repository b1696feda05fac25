//! Keys of the counts of samples.

use agent_common::record::{NativeUnwindStatus, ProfileKind, PythonUnwindStatus, WaitReason};

use crate::profile::ThreadActivity;

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
    /// The thread of the same process that it keeps waiting, 0 for none.
    pub(super) blocked: u32,
    /// The lock for which it waits, by the hash of its name, 0 for none or an unknown one.
    pub(super) lock: u64,
}

impl SampleKey {
    /// What the thread did.
    pub(super) fn activity(&self) -> ThreadActivity {
        ThreadActivity {
            wait: self.wait,
            holds_gil: self.holds_gil,
        }
    }
}

/// A thread, identified by process and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadKey {
    pub(super) tgid: u32,
    pub(super) tid: u32,
}
