//! The step that finds out who holds the GIL of the sampled thread.

use agent_common::{
    layout::ABSENT,
    memory::{UserAddr, UserMemory as _},
    python::{gil_holder, gil_holder_of_interpreter},
    record::StartedWait,
};

use crate::{current, memory::CurrentMemory};

/// `pthread_self()` of the thread that holds it, 0 for none, [`StartedWait::UNKNOWN_HOLDER`].
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn gil_holder_thread() -> u64 {
    try_gil_holder_thread().unwrap_or(StartedWait::UNKNOWN_HOLDER)
}

#[inline(always)]
fn try_gil_holder_thread() -> Option<u64> {
    let sampler = current::sampler()?;
    if sampler.interpreters_head.get() == 0 || sampler.thread.tid == 0 {
        return None;
    }
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let variable = UserAddr(sampler.gil_holder.get());
    let holder = if layout.interpreter.gil != ABSENT {
        let interpreter = sampler.thread.thread.states.first().interpreter;
        gil_holder_of_interpreter(&memory, layout, interpreter)
    } else if variable.is_null() {
        return None;
    } else {
        gil_holder(&memory, layout, variable)
    };
    if holder.is_null() {
        return Some(0);
    }
    Some(memory.word_or_zero(holder.field(layout.thread.thread_id)))
}
