//! The search for the thread states of a thread, and their validation.
//!
//! Every thread state carries the `pthread_self()` of its thread, which follows from the thread
//! pointer. That holds for all versions and C libraries, also while the thread does not hold the
//! GIL. The search visits the lists of all interpreters, once; its result is cached and
//! revalidated at every sample.
//!
//! A thread has a state in every interpreter of the process that it has entered. The chains of
//! their frames are not linked. Interpreters stand in the list from the newest to the oldest, and
//! code of an older one calls into a newer one, so that is their order from leaf to root.

use crate::{
    layout::{ABSENT, GilStyle, Layout},
    maps::{SearchedStates, ThreadState, ThreadStates},
    memory::{Fault, UserAddr, UserMemory},
    record::PythonUnwindStatus,
    scratch::{SLOT, Scratch},
    volatile::Volatile,
};

use super::newest_state::{and_of_older, newest_state};

/// Whether the thread state in the slot is attached to its interpreter, which is to hold the GIL
/// where there is one, for versions whose states contain it ([`GilStyle::IN_THREAD`]).
#[inline(always)]
#[must_use]
pub fn is_attached(scratch: &Scratch, layout: &Layout) -> bool {
    let fields = &layout.thread;
    let word = scratch.half(SLOT + fields.attached as usize);
    let is_set = word & u32::from(fields.attached_mask) == u32::from(fields.attached_value);
    layout.interpreter.gil_style == GilStyle::IN_THREAD && is_set
}

/// The thread state that holds the GIL, for versions that have a pointer to it, at `holder`; null
/// when it is free, `holder` is null, or that cannot be read.
///
/// It may be any state of a thread: the pointer does not change when the thread switches from one
/// interpreter to another.
#[inline(always)]
#[must_use]
pub fn gil_holder<M: UserMemory>(memory: &M, layout: &Layout, holder: UserAddr) -> UserAddr {
    /// From the pointer to the word that is 1 while the GIL is held.
    const LOCKED: u16 = 8;
    if holder.is_null() {
        return holder;
    }
    let state = UserAddr(memory.word_or_zero(holder));
    let is_last_holder = layout.interpreter.gil_style == GilStyle::LAST_HOLDER;
    if is_last_holder && memory.word_or_zero(holder.field(LOCKED)) as u32 != 1 {
        return UserAddr(0);
    }
    state
}

/// The thread state that holds the GIL of an interpreter, for versions in which that points to its GIL (3.12 and later,
/// not free-threaded); null when it is free, or that cannot be read.
#[inline(always)]
#[must_use]
pub fn gil_holder_of_interpreter<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    interpreter: UserAddr,
) -> UserAddr {
    /// `_gil_runtime_state.last_holder`, and `.locked`, which is 1 while it is held.
    const LAST_HOLDER: u16 = 8;
    const LOCKED: u16 = 16;
    let gil = UserAddr(memory.word_or_zero(interpreter.field(layout.interpreter.gil)));
    if !gil.could_be_structure() || memory.word_or_zero(gil.field(LOCKED)) as u32 != 1 {
        return UserAddr(0);
    }
    UserAddr(memory.word_or_zero(gil.field(LAST_HOLDER)))
}

/// Whether a thread collects garbage: the word of its interpreter at `interpreter` says that one does, and the
/// thread holds the GIL. It also seems so for another one that a finalizer lets run meanwhile.
///
/// `holds_gil`: whether the thread is known to hold the GIL. Where that was not read, and stands in the
/// runtime, it is read here; `is_own` tells the thread's states. `interpreters_head` is as for
/// [`ThreadStateSearch::begin`].
#[inline(always)]
#[must_use]
pub fn collects_garbage<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    interpreter: UserAddr,
    interpreters_head: UserAddr,
    holds_gil: bool,
    is_own: impl FnOnce(UserAddr) -> bool,
) -> bool {
    let fields = &layout.interpreter;
    let in_runtime = |field: u16| interpreters_head.field(field.wrapping_sub(fields.runtime_head));
    if !holds_gil && fields.runtime_gil_holder == ABSENT {
        return false;
    }
    let word = if fields.gc_collecting != ABSENT {
        interpreter.field(fields.gc_collecting)
    } else if fields.runtime_gc_collecting != ABSENT {
        in_runtime(fields.runtime_gc_collecting)
    } else {
        return false;
    };
    if memory.word_or_zero(word) as u32 != 1 {
        return false;
    }
    holds_gil
        || is_own(gil_holder(
            memory,
            layout,
            in_runtime(fields.runtime_gil_holder),
        ))
}

/// Whether `state` is still the state of the thread `thread_id`; it is then in the slot.
///
/// The id and the interpreter must be the same, and the neighbour in the list of the
/// interpreter's threads must still point at it: freed memory may keep its contents, but not
/// its place in the list. Where states have no pointer to that neighbour (2.7), only another search
/// is as safe.
#[inline(always)]
pub fn revalidate<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    state: ThreadState,
    thread_id: u64,
) -> bool {
    let fields = &layout.thread;
    if scratch
        .load_slot(memory, state.address, fields.bytes)
        .is_err()
    {
        return false;
    }
    let word = |offset: u16| scratch.word(SLOT + offset as usize);
    if word(fields.thread_id) != thread_id || word(fields.interpreter) != state.interpreter.0 {
        return false;
    }
    if fields.previous == ABSENT {
        return true;
    }
    let previous = UserAddr(word(fields.previous));
    let pointer = if previous.is_null() {
        state.interpreter.field(layout.interpreter.threads_head)
    } else {
        previous.field(fields.next)
    };
    memory.word(pointer) == Ok(state.address.0)
}

/// A search through the thread states of a process, one at a time.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadStateSearch {
    newest_interpreter: Volatile<u64>,
    newest_state: Volatile<u64>,
    /// States with this id and smaller ones are not visited.
    visited_id: Volatile<u64>,
    interpreter: Volatile<u64>,
    thread: Volatile<u64>,
    /// The states of the thread.
    pub states: ThreadStates,
}

/// The result of one step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// There are more states.
    Next,
    /// All states were visited: [`ThreadStateSearch::states`] holds those of the thread.
    Done,
    /// The search failed.
    End(PythonUnwindStatus),
}

impl ThreadStateSearch {
    /// A search that has not started.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            newest_interpreter: Volatile::new(0),
            newest_state: Volatile::new(0),
            visited_id: Volatile::new(0),
            interpreter: Volatile::new(0),
            thread: Volatile::new(0),
            states: ThreadStates::new(),
        }
    }

    /// The states that existed when it began.
    #[inline(always)]
    #[must_use]
    pub fn searched_states(&self) -> SearchedStates {
        SearchedStates {
            newest_interpreter: self.newest_interpreter.get(),
            newest_state: self.newest_state.get(),
        }
    }

    /// Whether it visits all states, not only those since an earlier search.
    #[inline(always)]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.visited_id.get() == 0
    }

    /// Begins at the newest interpreter, to which `interpreters_head` points; those of `visited` need
    /// not be visited again.
    ///
    /// # Errors
    ///
    /// [`Fault`] when the pointers cannot be read.
    #[inline(always)]
    pub fn begin<M: UserMemory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        interpreters_head: UserAddr,
        visited: SearchedStates,
    ) -> Result<(), Fault> {
        let interpreter = memory.word(interpreters_head)?;
        self.newest_interpreter.set(interpreter);
        let is_same = interpreter == visited.newest_interpreter;
        self.visited_id
            .set(if is_same { visited.newest_state } else { 0 });
        self.states = ThreadStates::new();
        // Before the states: one that is created meanwhile is newer.
        self.newest_state
            .set(newest_state(memory, layout, UserAddr(interpreter)));
        self.enter(memory, layout, interpreter)
    }

    /// Starts with the first thread of `interpreter`.
    #[inline(always)]
    fn enter<M: UserMemory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        interpreter: u64,
    ) -> Result<(), Fault> {
        self.interpreter.set(interpreter);
        self.thread.set(0);
        if interpreter != 0 {
            let head = UserAddr(interpreter).field(layout.interpreter.threads_head);
            self.thread.set(memory.word(head)?);
        }
        Ok(())
    }

    /// Visits one thread state.
    #[inline(always)]
    pub fn step<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        thread_id: u64,
    ) -> SearchStep {
        let interpreter = UserAddr(self.interpreter.get());
        if interpreter.is_null() {
            return SearchStep::Done;
        }
        let thread = UserAddr(self.thread.get());
        if thread.is_null() {
            let next = memory
                .word(interpreter.field(layout.interpreter.next))
                .and_then(|next| {
                    if next != 0 {
                        self.states.set_has_several_interpreters();
                        let older = newest_state(memory, layout, UserAddr(next));
                        let states = and_of_older(self.newest_state.get(), older);
                        self.newest_state.set(states);
                        self.visited_id.set(0);
                    }
                    self.enter(memory, layout, next)
                });
            return match next {
                Ok(()) => SearchStep::Next,
                Err(Fault) => SearchStep::End(PythonUnwindStatus::THREAD_FAULT),
            };
        }
        if !thread.could_be_structure() {
            return SearchStep::End(PythonUnwindStatus::BAD_POINTER);
        }
        if self.is_visited(memory, layout, thread) {
            self.thread.set(0);
            return SearchStep::Next;
        }
        if scratch
            .load_slot(memory, thread, layout.thread.bytes)
            .is_err()
        {
            return SearchStep::End(PythonUnwindStatus::THREAD_FAULT);
        }
        let word = |offset: u16| scratch.word(SLOT + offset as usize);
        if word(layout.thread.thread_id) == thread_id
            && word(layout.thread.interpreter) == interpreter.0
        {
            self.states.add(ThreadState {
                address: thread,
                interpreter,
            });
            // It has no other one in this interpreter.
            self.thread.set(0);
        } else {
            self.thread.set(word(layout.thread.next));
        }
        SearchStep::Next
    }
}

impl ThreadStateSearch {
    /// Whether an earlier search visited the state, and with it those behind it: new states are put
    /// at the head.
    #[inline(always)]
    fn is_visited<M: UserMemory>(&self, memory: &M, layout: &Layout, thread: UserAddr) -> bool {
        let visited = self.visited_id.get();
        visited != 0
            && memory
                .word_or_zero(thread.field(layout.thread.id))
                .wrapping_sub(1)
                < visited
    }
}

impl Default for ThreadStateSearch {
    fn default() -> Self {
        Self::new()
    }
}
