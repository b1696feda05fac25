//! Where asyncio has the task that a thread runs.

/// Offsets in bytes, those of asyncio's section `.AsyncioDebug` (3.14 and later).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTaskLayout {
    /// `_PyThreadStateImpl.asyncio_running_task`; 0 where asyncio was not imported or has no such section.
    pub running: u16,
    /// `TaskObj.task_name`.
    pub name: u16,
    /// `TaskObj.task_coro`.
    pub coroutine: u16,
    /// Zero.
    pub reserved: u16,
}

impl RunningTaskLayout {
    /// Of a process without tasks that could be read.
    pub const UNKNOWN: Self = Self {
        running: 0,
        name: 0,
        coroutine: 0,
        reserved: 0,
    };

    /// Whether there may be tasks.
    #[inline(always)]
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.running != 0
    }
}

const _: () = assert!(size_of::<RunningTaskLayout>() == 8);
