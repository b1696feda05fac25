//! What changes when a thread state is created, so that "this thread has no state" is believed only
//! while none was.
//!
//! A thread that enters Python now and then, as callbacks of native libraries do, gets a new state
//! each time, mostly at the address of the last one that was freed. The address of the newest state
//! alone would not change when two threads do so in turn; its id does, since an interpreter does not
//! use an id again. Versions without ids (up to 3.6) have the two newest addresses instead, and the
//! thread that holds the GIL.

use crate::{
    layout::{ABSENT, Layout},
    limits::MAX_STATES,
    maps::{SearchedStates, TrackedThread},
    memory::{UserAddr, UserMemory},
};

use super::thread_state::gil_holder;

/// Mixes numbers (2^64 divided by the golden ratio, odd).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What changes when `interpreter` gets a thread state: the id of its newest one where states have
/// ids. 0 when it has none, or that cannot be read.
#[inline(always)]
pub(super) fn newest_state<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    interpreter: UserAddr,
) -> u64 {
    let fields = &layout.interpreter;
    if fields.newest_state_id != ABSENT {
        return memory.word_or_zero(interpreter.field(fields.newest_state_id));
    }
    let head = UserAddr(memory.word_or_zero(interpreter.field(fields.threads_head)));
    if !head.could_be_structure() {
        return 0;
    }
    if layout.thread.id != ABSENT {
        return memory.word_or_zero(head.field(layout.thread.id));
    }
    let next = memory.word_or_zero(head.field(layout.thread.next));
    head.0 ^ next.wrapping_mul(MULTIPLIER)
}

/// Adds what [`newest_state`] is for another interpreter to that of those before it; 0 when either
/// is.
#[inline(always)]
pub(super) fn and_of_older(newest: u64, older: u64) -> u64 {
    if newest == 0 || older == 0 {
        return 0;
    }
    newest.wrapping_mul(MULTIPLIER) ^ older
}

/// Whether no thread state was created since the search that found that the thread has none.
#[inline(always)]
pub(super) fn is_unchanged<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    tracked: &TrackedThread,
    interpreters_head: UserAddr,
) -> bool {
    let newest = memory.word_or_zero(interpreters_head);
    if newest == 0 || newest != tracked.searched_states.newest_interpreter {
        return false;
    }
    let mut states = newest_state(memory, layout, UserAddr(newest));
    if tracked.states.has_several_interpreters() {
        states = with_older_interpreters(memory, layout, UserAddr(newest), states);
    }
    states != 0 && states == tracked.searched_states.newest_state
}

/// `states` of the interpreter `newest` and those of all others; 0 when there are more than
/// [`MAX_STATES`].
#[inline(always)]
fn with_older_interpreters<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    newest: UserAddr,
    states: u64,
) -> u64 {
    let mut states = states;
    let mut interpreter = newest;
    let mut nth = 0;
    while nth < MAX_STATES {
        let next = memory.word_or_zero(interpreter.field(layout.interpreter.next));
        if next == 0 {
            return states;
        }
        interpreter = UserAddr(next);
        states = and_of_older(states, newest_state(memory, layout, interpreter));
        nth += 1;
    }
    0
}

/// Whether the thread holds the GIL although no state of it was found, where states have no ids:
/// `holder` is as for [`gil_holder`].
#[inline(always)]
pub(super) fn holds_gil_unseen<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    holder: UserAddr,
    thread_id: u64,
) -> bool {
    if layout.thread.id != ABSENT {
        return false;
    }
    let state = gil_holder(memory, layout, holder);
    state.could_be_structure()
        && memory.word_or_zero(state.field(layout.thread.thread_id)) == thread_id
}

impl TrackedThread {
    /// What a search can rely on at `now_ns`: states that are not newer were visited by the last
    /// one, and none was the thread's.
    ///
    /// A state may get its thread only after it was created, so all are visited when a search is
    /// due.
    #[inline(always)]
    #[must_use]
    pub fn visited_states(&self, layout: &Layout, now_ns: u64) -> SearchedStates {
        let has_none = self.states.count() == 0 && !self.searched.is_due(now_ns);
        if has_none && layout.thread.id != ABSENT && !self.states.has_several_interpreters() {
            self.searched_states
        } else {
            SearchedStates::NONE
        }
    }
}
