//! The process of the thread that was visited last.

/// Whether the threads of a process are visited.
#[repr(C)]
pub(crate) struct VisitedProcess {
    /// That of the iterator with which one was visited.
    pub(crate) session: u64,
    /// Process, in the initial PID namespace.
    pub(crate) tgid: u32,
    /// Whether they are.
    pub(crate) is_profiled: u32,
}
