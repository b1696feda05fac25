//! The walk through the frames of all states of a thread.
//!
//! The frames of a state in an older interpreter stand below those of a newer one. In 3.11 and
//! 3.12 the newest evaluation loop publishes its `_PyCFrame` before it has set a frame in it; a
//! walk from there fails and starts again at the loop that called it.

use crate::{
    layout::{ABSENT, Layout},
    limits::MAX_STATES,
    maps::{ThreadState, ThreadStates, TrackedThread},
    memory::{UserAddr, UserMemory},
    record::PythonUnwindStatus,
    scratch::Scratch,
    volatile::Volatile,
};

use super::{
    driver::PythonOutcome,
    newest_state::is_unchanged,
    symbol::SymbolLookup,
    thread_state::{collects_garbage, gil_holder, is_attached, revalidate},
    walk::{PythonStep, PythonWalk},
};

/// Which of the chains of a thread is walked.
#[repr(C)]
#[derive(Debug)]
pub struct WalkPosition {
    /// Index of the thread state.
    nth_state: Volatile<u32>,
    /// 1 when the walk from the newest evaluation loop failed.
    is_second_walk: Volatile<u32>,
    /// 1 when the thread holds the GIL, 0 when it does not or that is not known.
    holds_gil: Volatile<u32>,
    /// 1 when it also collects garbage, 0 when it does not or that is not known.
    collects_garbage: Volatile<u32>,
}

impl WalkPosition {
    /// At the first state.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            nth_state: Volatile::new(0),
            is_second_walk: Volatile::new(0),
            holds_gil: Volatile::new(0),
            collects_garbage: Volatile::new(0),
        }
    }

    /// Back to the first state.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.nth_state.set(0);
        self.is_second_walk.set(0);
        self.holds_gil.set(0);
        self.collects_garbage.set(0);
    }

    /// Whether the thread is known to hold the GIL or, without one, to be attached.
    #[inline(always)]
    #[must_use]
    pub fn holds_gil(&self) -> bool {
        self.holds_gil.get() != 0
    }

    /// Whether the thread is known to collect garbage.
    #[inline(always)]
    #[must_use]
    pub fn collects_garbage(&self) -> bool {
        self.collects_garbage.get() != 0
    }
}

impl Default for WalkPosition {
    fn default() -> Self {
        Self::new()
    }
}

/// The states of a thread, that of the newest interpreter first.
pub trait StateList {
    /// The `nth` state; its address is null where there is none.
    fn state(&self, nth: u32) -> ThreadState;
}

/// Addresses in the process that the state of a thread depends on.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPointers {
    /// See [`TrackedProcess::interpreters_head`](crate::maps::TrackedProcess::interpreters_head).
    pub interpreters_head: UserAddr,
    /// See [`TrackedProcess::gil_holder`](crate::maps::TrackedProcess::gil_holder).
    pub gil_holder: UserAddr,
}

/// What a walk through the states of one thread works on.
#[derive(Debug)]
pub struct ThreadWalk<'a, M> {
    /// The memory of the process.
    pub memory: &'a M,
    /// Copies of structures of the process.
    pub scratch: &'a mut Scratch,
    /// The layout of the interpreter.
    pub layout: &'a Layout,
    /// The walk.
    pub walk: &'a mut PythonWalk,
    /// The chain that is walked.
    pub position: &'a mut WalkPosition,
    /// The thread's `pthread_self()`.
    pub thread_id: u64,
}

impl StateList for ThreadStates {
    #[inline(always)]
    fn state(&self, nth: u32) -> ThreadState {
        self.get(nth)
    }
}

impl StateList for [ThreadState] {
    fn state(&self, nth: u32) -> ThreadState {
        self.get(nth as usize).copied().unwrap_or(ThreadState::NONE)
    }
}

impl<M: UserMemory> ThreadWalk<'_, M> {
    /// Loads the first state of a `tracked` thread into the slot, if that is still valid:
    /// [`PythonOutcome::DONE`], else [`PythonOutcome::NEXT`].
    #[inline(always)]
    pub fn load_cached_state(
        &mut self,
        tracked: &TrackedThread,
        pointers: ProcessPointers,
        now_ns: u64,
    ) -> PythonOutcome {
        let layout = self.layout;
        let is_due = tracked.searched.is_due(now_ns);
        let state = tracked.states.first();
        if state.address.is_null() {
            return if !is_due && self.has_no_state(tracked, pointers) {
                PythonOutcome::ended(PythonUnwindStatus::NO_THREAD_STATE)
            } else {
                PythonOutcome::NEXT
            };
        }
        if layout.thread.previous == ABSENT && is_due {
            return PythonOutcome::NEXT;
        }
        if !self.revalidate(state) {
            return PythonOutcome::NEXT;
        }
        // A thread that is attached to its newest interpreter is attached to no other one.
        let is_attached = is_attached(self.scratch, layout);
        if !is_attached {
            let newest = self.memory.word_or_zero(pointers.interpreters_head);
            if newest != tracked.searched_states.newest_interpreter
                || tracked.states.has_several_interpreters() && is_due
            {
                return PythonOutcome::NEXT;
            }
        }
        let holder = gil_holder(self.memory, layout, pointers.gil_holder);
        let holds_gil = is_attached || tracked.states.contain(holder);
        self.position.holds_gil.set(u32::from(holds_gil));
        let collects_garbage = collects_garbage(
            self.memory,
            layout,
            state.interpreter,
            pointers.interpreters_head,
            holds_gil,
            |holder| tracked.states.contain(holder),
        );
        self.position
            .collects_garbage
            .set(u32::from(collects_garbage));
        PythonOutcome::DONE
    }

    /// Whether a thread for which no state was found still has none.
    #[inline(always)]
    fn has_no_state(&self, tracked: &TrackedThread, pointers: ProcessPointers) -> bool {
        is_unchanged(
            self.memory,
            self.layout,
            tracked,
            pointers.interpreters_head,
        ) && !self.holds_gil_unseen(pointers.gil_holder)
    }

    /// Whether the thread holds the GIL although no state of it was found, where states have no ids;
    /// `holder` is as for [`gil_holder`].
    #[inline(always)]
    fn holds_gil_unseen(&self, holder: UserAddr) -> bool {
        let fields = &self.layout.thread;
        if fields.id != ABSENT {
            return false;
        }
        let state = gil_holder(self.memory, self.layout, holder);
        state.could_be_structure()
            && self.memory.word_or_zero(state.field(fields.thread_id)) == self.thread_id
    }

    /// Loads the first of `states`, which were just found, into the slot.
    #[inline(always)]
    pub fn load_first_state(&mut self, states: &(impl StateList + ?Sized)) -> PythonOutcome {
        if !self.revalidate(states.state(0)) {
            return PythonOutcome::FAULT;
        }
        let is_attached = is_attached(self.scratch, self.layout);
        self.position.holds_gil.set(u32::from(is_attached));
        PythonOutcome::DONE
    }

    /// Starts at the newest frame of the state in the slot.
    #[inline(always)]
    pub fn begin(&mut self) -> PythonOutcome {
        self.walk
            .begin(self.memory, self.scratch, self.layout)
            .into()
    }

    /// Visits up to `count` frames of a chain.
    #[inline(always)]
    pub fn walk_frames<L: SymbolLookup>(&mut self, symbols: &mut L, count: u32) -> PythonOutcome {
        let mut nth = 0;
        while nth < count {
            let step = self
                .walk
                .step(self.memory, self.scratch, self.layout, symbols);
            if let PythonStep::End(end) = step {
                return PythonOutcome::ended(end);
            }
            nth += 1;
        }
        PythonOutcome::NEXT
    }

    /// Continues after a chain that ended with `end`: at the next one, or not.
    #[inline(always)]
    pub fn continue_walk(
        &mut self,
        states: &(impl StateList + ?Sized),
        end: PythonUnwindStatus,
    ) -> PythonOutcome {
        if self.begin_at_caller(states, end) == PythonOutcome::NEXT {
            return PythonOutcome::NEXT;
        }
        self.begin_next_state(states, end)
    }

    /// Starts again at the evaluation loop that called the newest one, when a walk from that ended
    /// with `end` and no root: [`PythonOutcome::NEXT`], else [`PythonOutcome::DONE`].
    #[inline(always)]
    fn begin_at_caller(
        &mut self,
        states: &(impl StateList + ?Sized),
        end: PythonUnwindStatus,
    ) -> PythonOutcome {
        let has_no_root = end == PythonUnwindStatus::FRAME_FAULT
            || end == PythonUnwindStatus::BAD_POINTER
            || end == PythonUnwindStatus::NO_FRAME;
        let position = &mut *self.position;
        let is_first = position.is_second_walk.get() == 0 && position.nth_state.get() == 0;
        if self.layout.thread.cframe_previous == ABSENT || !has_no_root || !is_first {
            return PythonOutcome::DONE;
        }
        position.is_second_walk.set(1);
        if !self.revalidate(states.state(0)) {
            return PythonOutcome::DONE;
        }
        self.walk.clear();
        self.memory.clear_fault();
        let step = self
            .walk
            .begin_at_caller(self.memory, self.scratch, self.layout);
        // Without a frame there is no such loop: the state runs nothing.
        if step == PythonStep::Next {
            PythonOutcome::NEXT
        } else {
            PythonOutcome::DONE
        }
    }

    /// Continues with the next of `states` that runs a frame, after the one before ended with
    /// `end`.
    #[inline(always)]
    fn begin_next_state(
        &mut self,
        states: &(impl StateList + ?Sized),
        end: PythonUnwindStatus,
    ) -> PythonOutcome {
        let ended = PythonOutcome::ended(end);
        if end != PythonUnwindStatus::COMPLETE && end != PythonUnwindStatus::NO_FRAME {
            return ended;
        }
        let mut tried = 0;
        while tried < MAX_STATES {
            tried += 1;
            let nth = self.position.nth_state.get() + 1;
            self.position.nth_state.set(nth);
            let state = states.state(nth);
            if state.address.is_null() {
                return ended;
            }
            if !self.revalidate(state) {
                return PythonOutcome::FAULT;
            }
            if is_attached(self.scratch, self.layout) {
                self.position.holds_gil.set(1);
            }
            let outcome = self.begin();
            // An interpreter that runs nothing was created by one that runs something.
            if outcome != PythonOutcome::ended(PythonUnwindStatus::NO_FRAME) {
                return outcome;
            }
        }
        ended
    }

    #[inline(always)]
    fn revalidate(&mut self, state: ThreadState) -> bool {
        revalidate(
            self.memory,
            self.scratch,
            self.layout,
            state,
            self.thread_id,
        )
    }
}

impl From<PythonStep> for PythonOutcome {
    #[inline(always)]
    fn from(step: PythonStep) -> Self {
        match step {
            PythonStep::Next => Self::NEXT,
            PythonStep::End(end) => Self::ended(end),
        }
    }
}
