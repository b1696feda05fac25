//! Which thread state belongs to the sampled thread.
//!
//! Every thread state carries the `pthread_self()` of its thread, which follows from the thread
//! pointer. That holds for all versions and C libraries, also while the thread does not hold the
//! GIL. The search goes through the lists of all interpreters, once; what it found is
//! remembered and proved at every sample.

use crate::{
    held::Held,
    layout::Layout,
    memory::{Fault, UserAddr, UserMemory},
    record::WalkEnd,
    scratch::{SLOT, Scratch},
};

/// A thread state, and the interpreter it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Its address.
    pub address: UserAddr,
    /// Address of its interpreter.
    pub interpreter: UserAddr,
}

/// Whether `state` is still the state of the thread `thread_id`; it is then in the slot.
///
/// The id and the interpreter must be the same, and the neighbour in the list of the
/// interpreter's threads must still point at it: freed memory may keep its contents, but not
/// its place in the list.
#[inline(always)]
pub fn prove<M: UserMemory>(
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
pub struct Search {
    interpreter: Held<u64>,
    thread: Held<u64>,
}

/// What one step of a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// Not found yet.
    Next,
    /// Found; it is in the slot.
    Found(ThreadState),
    /// There is none, or that could not be learned.
    End(WalkEnd),
}

impl Search {
    /// A search that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            interpreter: Held::new(0),
            thread: Held::new(0),
        }
    }

    /// Begins at the newest interpreter, to which `interpreters_head` points.
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
    ) -> Result<(), Fault> {
        let interpreter = memory.word(interpreters_head)?;
        self.enter(memory, layout, interpreter)
    }

    /// Goes to the first thread of `interpreter`.
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

    /// Looks at one thread state.
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
            return SearchStep::End(WalkEnd::NO_THREAD_STATE);
        }
        let thread = UserAddr(self.thread.get());
        if thread.is_null() {
            return match memory
                .word(interpreter.field(layout.interpreter.next))
                .and_then(|next| self.enter(memory, layout, next))
            {
                Ok(()) => SearchStep::Next,
                Err(Fault) => SearchStep::End(WalkEnd::THREAD_FAULT),
            };
        }
        if !thread.could_be_structure() {
            return SearchStep::End(WalkEnd::BAD_POINTER);
        }
        if scratch
            .load_slot(memory, thread, layout.thread.bytes)
            .is_err()
        {
            return SearchStep::End(WalkEnd::THREAD_FAULT);
        }
        let word = |offset: u16| scratch.word(SLOT + offset as usize);
        if word(layout.thread.thread_id) == thread_id
            && word(layout.thread.interpreter) == interpreter.0
        {
            return SearchStep::Found(ThreadState {
                address: thread,
                interpreter,
            });
        }
        self.thread.set(word(layout.thread.next));
        SearchStep::Next
    }
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}
