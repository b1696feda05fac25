//! The order of the steps that unwind the native frames of a thread.
//!
//! As for [Python frames](crate::python::UnwindPython), steps are global functions in a BPF program
//! and plain calls elsewhere.

use crate::{limits::MAX_NATIVE_VISITED, record::NativeUnwindStatus};

use super::frame::NativeStep;

/// The result of a step, as a number: a global function of a BPF program can return nothing else.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeOutcome(pub u32);

impl NativeOutcome {
    /// There is another frame.
    pub const NEXT: Self = Self(0);

    const END: u32 = 1 << 16;

    /// Unwinding ends here.
    #[inline(always)]
    #[must_use]
    pub const fn ended(status: NativeUnwindStatus) -> Self {
        Self(Self::END | status.0 as u32)
    }

    /// How unwinding ended.
    #[inline(always)]
    #[must_use]
    pub const fn status(self) -> NativeUnwindStatus {
        NativeUnwindStatus((self.0 & 0xffff) as u16)
    }
}

impl From<NativeStep> for NativeOutcome {
    #[inline(always)]
    fn from(step: NativeStep) -> Self {
        match step {
            NativeStep::Next => Self::NEXT,
            NativeStep::End(status) => Self::ended(status),
        }
    }
}

/// The steps that unwind the native frames of a thread.
pub trait UnwindNative {
    /// Frames that one [`walk_frames`](Self::walk_frames) visits.
    const FRAMES_PER_STEP: u32;

    /// Starts at the registers of the thread.
    fn begin(&mut self) -> NativeOutcome;

    /// Visits frames.
    fn walk_frames(&mut self) -> NativeOutcome;

    /// Unwinds the frames.
    #[inline(always)]
    fn unwind(&mut self) -> NativeUnwindStatus {
        let mut outcome = self.begin();
        let mut visited = 0;
        while outcome == NativeOutcome::NEXT && visited < MAX_NATIVE_VISITED {
            visited += Self::FRAMES_PER_STEP;
            outcome = self.walk_frames();
        }
        if outcome == NativeOutcome::NEXT {
            NativeUnwindStatus::TOO_DEEP
        } else {
            outcome.status()
        }
    }
}
