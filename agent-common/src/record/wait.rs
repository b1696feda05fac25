//! What a thread waits for.

/// What a thread waited for when a sample was taken of it.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitReason(pub u16);

impl WaitReason {
    /// Nothing: the thread ran.
    pub const NONE: Self = Self(0);
    /// A processor: the thread could run, and none was free.
    pub const RUNNABLE: Self = Self(1);
    /// The global interpreter lock.
    pub const GIL: Self = Self(2);
    /// Another lock, a condition or a semaphore.
    pub const LOCK: Self = Self(3);
    /// The end of a time.
    pub const SLEEP: Self = Self(4);
    /// One of several descriptors: `select`, `poll`, `epoll_wait`.
    pub const POLL: Self = Self(5);
    /// A socket.
    pub const SOCKET: Self = Self(6);
    /// A file.
    pub const FILE: Self = Self(7);
    /// A pipe, a terminal or an event descriptor.
    pub const PIPE: Self = Self(8);
    /// A child process.
    pub const CHILD: Self = Self(9);
    /// A page of memory.
    pub const PAGE_FAULT: Self = Self(10);
    /// A completion of `io_uring`.
    pub const IO_URING: Self = Self(11);
    /// The threads of a free-threaded interpreter that one of them has stopped, or is about to.
    pub const STOP_THE_WORLD: Self = Self(12);
    /// Something else in the kernel.
    pub const OTHER: Self = Self(13);
    /// A signal, a debugger or a freezer has stopped the thread, whatever it did before. BPF programs do not find that out.
    pub const STOPPED: Self = Self(14);
    /// Of a task: what it awaits. BPF programs do not find that out, and neither the next one.
    pub const AWAIT: Self = Self(15);
    /// Of a task: the event loop, which has not come to it.
    pub const EVENT_LOOP: Self = Self(16);
}
