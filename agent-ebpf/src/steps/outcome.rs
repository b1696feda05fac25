//! What a step came to.

use agent_common::record::{NativeUnwindStatus, PythonUnwindStatus};

/// What a step came to: a number, since that is all that such a function may give.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome(pub(crate) u32);

impl Outcome {
    /// The same step is to be done again, or the search has to be made.
    pub(crate) const NEXT: Self = Self(0);
    /// The thread state is in the slot.
    pub(crate) const DONE: Self = Self(1);

    const END: u32 = 1 << 16;

    /// The sample ends here.
    pub(crate) const fn ended(end: PythonUnwindStatus) -> Self {
        Self(Self::END | end.0 as u32)
    }

    /// Where the sample ended.
    pub(crate) const fn end(self) -> PythonUnwindStatus {
        PythonUnwindStatus((self.0 & 0xffff) as u16)
    }
}

/// What a step of the walk of native frames came to, likewise.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativeOutcome(pub(crate) u32);

impl NativeOutcome {
    /// There is another frame.
    pub(crate) const NEXT: Self = Self(0);

    const END: u32 = 1 << 16;

    /// The walk ends here.
    pub(crate) const fn ended(end: NativeUnwindStatus) -> Self {
        Self(Self::END | end.0 as u32)
    }

    /// Where the walk ended.
    pub(crate) const fn end(self) -> NativeUnwindStatus {
        NativeUnwindStatus((self.0 & 0xffff) as u16)
    }
}

/// The thread's state cannot be read, or the maps are not there, which cannot happen.
pub(crate) const FAULT: Outcome = Outcome::ended(PythonUnwindStatus::THREAD_FAULT);
