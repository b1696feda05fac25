//! How unwinding ended.

/// How unwinding of Python frames ended.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PythonUnwindStatus(pub u16);

impl PythonUnwindStatus {
    /// At the root: the stack is complete.
    pub const COMPLETE: Self = Self(1);
    /// The thread has no Python thread state.
    pub const NO_THREAD_STATE: Self = Self(2);
    /// The thread has a thread state that runs no frame.
    pub const NO_FRAME: Self = Self(3);
    /// The thread state could not be read.
    pub const THREAD_FAULT: Self = Self(4);
    /// A frame could not be read.
    pub const FRAME_FAULT: Self = Self(5);
    /// A pointer that no structure can have.
    pub const BAD_POINTER: Self = Self(6);
    /// The chain of frames has a cycle.
    pub const CYCLE: Self = Self(7);
    /// More frames than one sample may visit.
    pub const TOO_DEEP: Self = Self(8);
    /// More thread states than one sample may visit.
    pub const TOO_MANY_THREADS: Self = Self(9);
    /// At a frame that the interpreter was about to link or had just unlinked.
    pub const TORN: Self = Self(10);
    /// The process is not known to run Python.
    pub const NO_PYTHON: Self = Self(11);
    /// The thread state is not known, and was not searched: searches in the process have taken too long within this
    /// second.
    pub const OVER_BUDGET: Self = Self(12);
    /// The stack reaches the root, and functions that its first one has called are not known.
    pub const INNER_UNKNOWN: Self = Self(13);
    /// A pass over the threads has not read the stack, and no sample says where the thread was.
    pub const NOT_SAMPLED: Self = Self(14);

    /// Whether no Python frame is missing.
    #[inline(always)]
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::COMPLETE
            || self == Self::NO_PYTHON
            || self == Self::NO_THREAD_STATE
            || self == Self::NO_FRAME
    }
}

/// How unwinding of native frames ended.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeUnwindStatus(pub u16);

impl NativeUnwindStatus {
    /// Native frames are disabled.
    pub const NOT_WALKED: Self = Self(0);
    /// At the process's entry or the thread's start: the stack is complete.
    pub const COMPLETE: Self = Self(1);
    /// The thread's registers are not known, or are those of a 32-bit program.
    pub const NO_REGISTERS: Self = Self(2);
    /// At an address that is in no known executable mapping.
    pub const UNMAPPED: Self = Self(3);
    /// At code whose unwind table is not loaded yet, and which keeps no frame pointer.
    pub const NO_TABLE: Self = Self(4);
    /// At code that no unwind table has a rule for, and which keeps no frame pointer.
    pub const NO_RULE: Self = Self(5);
    /// A part of the stack could not be read.
    pub const FAULT: Self = Self(6);
    /// The CFA is not above the stack pointer.
    pub const CFA_NOT_ABOVE: Self = Self(7);
    /// More frames than the limit.
    pub const TOO_DEEP: Self = Self(8);
    /// There are only kernel frames: it is a kernel thread, or it is exiting.
    pub const KERNEL_ONLY: Self = Self(9);

    /// Whether no native frame is missing.
    #[inline(always)]
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::COMPLETE || self == Self::KERNEL_ONLY || self == Self::NOT_WALKED
    }
}
