//! The exception that a thread is raising.

use crate::{
    layout::{ABSENT, Layout},
    memory::{UserAddr, UserMemory},
};

/// The class of the exception that the thread with this state raises at this moment; null where there is none,
/// where that cannot be read, or where the exception has come from a frame further up or was raised before.
///
/// What distinguishes it is that it has no traceback yet, at the moment when the interpreter is about to add the
/// first frame to it.
#[inline(always)]
#[must_use]
pub fn raised_class<M: UserMemory>(memory: &M, layout: &Layout, state: UserAddr) -> UserAddr {
    const NONE: UserAddr = UserAddr(0);
    let fields = &layout.exception;
    if state.is_null() {
        return NONE;
    }
    if fields.current == ABSENT {
        let traceback = memory.word(state.field(fields.thread_traceback));
        if traceback != Ok(0) {
            return NONE;
        }
        return UserAddr(memory.word_or_zero(state.field(fields.thread_class)));
    }
    let exception = UserAddr(memory.word_or_zero(state.field(fields.current)));
    if exception.is_null() || memory.word(exception.field(fields.traceback)) != Ok(0) {
        return NONE;
    }
    UserAddr(memory.word_or_zero(exception.field(layout.object.class)))
}
