//! The step that reads and sends the name of the task of asyncio that the sampled thread runs.

use agent_common::{python::read_running_task, record::TaskName};

use crate::{
    current, emit,
    maps::{HASH_SEED, SENT_TASKS, is_sent},
    memory::CurrentMemory,
};

/// Reads the name, and sends it if it is new; returns 1 where there is one.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn name_task() -> u32 {
    u32::from(try_name_task().is_some())
}

#[inline(always)]
fn try_name_task() -> Option<()> {
    let sampler = current::sampler()?;
    let tasks = sampler.tasks.get();
    if !tasks.is_known() {
        return None;
    }
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let state = sampler.thread.thread.states.first().address;
    let resend_before_ns = sampler.resend_before_ns.get();
    let now_ns = sampler.time_ns.get();
    let name = &mut sampler.task;
    let scratch = &mut sampler.scratch;
    let seed = HASH_SEED.load();
    let hash = read_running_task(&memory, scratch, layout, tasks, state, seed, name);
    if hash == 0 {
        return None;
    }
    if !is_sent(&SENT_TASKS, hash, resend_before_ns) {
        name.header = TaskName::NONE.header;
        // SAFETY: the record is as long as it says.
        if unsafe { emit::send((&raw const *name).cast(), size_of::<TaskName>()) } {
            let _ = SENT_TASKS.insert(hash, now_ns, 0);
        }
    }
    Some(())
}
