//! The sample in the making, which its steps hand on to each other.

use agent_common::{
    hash::Hash, held::Held, layout::Layout, scratch::Scratch, thread::Search, walk::Walk,
};

use crate::maps::{LAYOUTS, SAMPLER};

/// All that one step leaves for the next.
#[repr(C)]
pub(crate) struct Sampler {
    /// When, in nanoseconds of the monotonic clock.
    pub(crate) time_ns: Held<u64>,
    /// The thread's `pthread_self()`.
    pub(crate) thread_id: Held<u64>,
    /// Address of the pointer to the process's newest interpreter.
    pub(crate) interpreters_head: Held<u64>,
    /// See `Process::new_code_ns`.
    pub(crate) new_code_ns: Held<u64>,
    /// Hash of the frames that were settled so far.
    pub(crate) hash: Held<Hash>,
    /// The process, in the initial PID namespace.
    pub(crate) tgid: Held<u32>,
    /// The thread, in the initial PID namespace.
    pub(crate) tid: Held<u32>,
    /// Index of the process's layout.
    pub(crate) layout: Held<u32>,
    pub(crate) reserved: u32,
    /// The search for the thread's state.
    pub(crate) search: Search,
    /// The walk of its frames.
    pub(crate) walk: Walk,
    /// What was copied from the process.
    pub(crate) scratch: Scratch,
}

impl Sampler {
    /// This processor's sample.
    #[inline(always)]
    pub(crate) fn current() -> Option<&'static mut Self> {
        let sampler = SAMPLER.get_ptr_mut(0)?;
        // SAFETY: the value lives as long as the map and belongs to this processor; steps
        // run one after the other and do not keep it.
        Some(unsafe { &mut *sampler })
    }

    /// The layout of the process's interpreter.
    #[inline(always)]
    pub(crate) fn layout(&self) -> Option<&'static Layout> {
        LAYOUTS.get(self.layout.get())
    }
}
