//! The order of the steps that unwind the Python frames of a thread.
//!
//! The BPF programs, the agent when it reads another process, and the tests implement the steps;
//! the order and its limits are here once. In a BPF program each step is a global function, which
//! the verifier checks on its own: hence outcomes are numbers, and the position of the walk is in
//! memory, not in the driver.

use crate::{
    limits::{MAX_THREADS, MAX_VISITED},
    record::PythonUnwindStatus,
};

/// The result of a step, as a number: a global function of a BPF program can return nothing else.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonOutcome(pub u32);

impl PythonOutcome {
    /// The step has to be repeated, or the next one has to be taken.
    pub const NEXT: Self = Self(0);
    /// The thread state is in the slot.
    pub const DONE: Self = Self(1);
    /// The thread state cannot be read.
    pub const FAULT: Self = Self::ended(PythonUnwindStatus::THREAD_FAULT);

    const END: u32 = 1 << 16;

    /// Unwinding ends here.
    #[inline(always)]
    #[must_use]
    pub const fn ended(status: PythonUnwindStatus) -> Self {
        Self(Self::END | status.0 as u32)
    }

    /// How unwinding ended.
    #[inline(always)]
    #[must_use]
    pub const fn status(self) -> PythonUnwindStatus {
        PythonUnwindStatus((self.0 & 0xffff) as u16)
    }
}

/// The steps that find the state of a thread.
pub trait FindState {
    /// Thread states that one [`search`](Self::search) visits.
    const STATES_PER_STEP: u32;

    /// Loads the cached state: [`DONE`](PythonOutcome::DONE), or [`NEXT`](PythonOutcome::NEXT) when
    /// it has to be searched.
    fn load_cached_state(&mut self) -> PythonOutcome;

    /// Starts the search.
    fn begin_search(&mut self) -> PythonOutcome;

    /// Continues the search; [`DONE`](PythonOutcome::DONE) when the states found are in the cache.
    fn search(&mut self) -> PythonOutcome;

    /// Loads the state of the thread into the slot, from the cache or by a search.
    ///
    /// The loop has one condition in one place: Linux 5.10 rejects loops with a second entry.
    #[inline(always)]
    fn find_state(&mut self) -> PythonOutcome {
        let cached = self.load_cached_state();
        if cached != PythonOutcome::NEXT {
            return cached;
        }
        let mut outcome = self.begin_search();
        let mut visited = 0;
        while outcome == PythonOutcome::NEXT && visited < MAX_THREADS {
            visited += Self::STATES_PER_STEP;
            outcome = self.search();
        }
        if outcome == PythonOutcome::NEXT {
            return PythonOutcome::ended(PythonUnwindStatus::TOO_MANY_THREADS);
        }
        if outcome != PythonOutcome::DONE {
            return outcome;
        }
        let found = self.load_cached_state();
        if found == PythonOutcome::NEXT {
            // The state was removed after the search had found it.
            return PythonOutcome::FAULT;
        }
        found
    }
}

/// The steps that unwind the Python frames of a thread.
pub trait UnwindPython {
    /// Frames that one [`walk_frames`](Self::walk_frames) visits.
    const FRAMES_PER_STEP: u32;

    /// Loads the state of the thread into the slot: [`DONE`](PythonOutcome::DONE).
    fn load_state(&mut self) -> PythonOutcome;

    /// Starts at the newest frame of the state in the slot.
    fn begin_walk(&mut self) -> PythonOutcome;

    /// Visits frames; at the end of a chain it includes [`continue_walk`](Self::continue_walk).
    fn walk_frames(&mut self) -> PythonOutcome;

    /// Continues after a chain of frames that ended with `status`, where there is another chain.
    fn continue_walk(&mut self, status: PythonUnwindStatus) -> PythonOutcome;

    /// Unwinds the frames.
    #[inline(always)]
    fn unwind(&mut self) -> PythonUnwindStatus {
        let loaded = self.load_state();
        if loaded != PythonOutcome::DONE {
            return loaded.status();
        }
        let mut outcome = self.begin_walk();
        if outcome != PythonOutcome::NEXT {
            outcome = self.continue_walk(outcome.status());
        }
        let mut visited = 0;
        while outcome == PythonOutcome::NEXT && visited < MAX_VISITED {
            visited += Self::FRAMES_PER_STEP;
            outcome = self.walk_frames();
        }
        if outcome == PythonOutcome::NEXT {
            PythonUnwindStatus::TOO_DEEP
        } else {
            outcome.status()
        }
    }
}
