//! Which thread state is it?

use agent_common::{
    maps::Thread,
    memory::{Fault, UserAddr},
    record::WalkEnd,
    thread::{SearchStep, ThreadState, prove},
    trust::Trust,
};

use super::{FAULT, Outcome};
use crate::{maps::THREADS, memory::Current, sampler::Sampler};

/// Thread states that one call of [`find_thread`] looks at.
pub(crate) const THREADS_PER_STEP: u32 = 8;

/// The thread state that is remembered, if it can be proved: [`Outcome::DONE`], or
/// [`Outcome::NEXT`] when it has to be searched.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn recall_thread() -> u32 {
    try_recall_thread().unwrap_or(Outcome::NEXT).0
}

#[inline(always)]
fn try_recall_thread() -> Option<Outcome> {
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let known = THREADS.get_ptr(sampler.tid.get())?;
    // SAFETY: values of the map stay readable while the program runs.
    let known = unsafe { &*known };
    let thread_id = sampler.thread_id.get();
    if known.tgid != sampler.tgid.get() || known.thread_id != thread_id {
        return None;
    }
    if known.state == 0 {
        return (!known.absent.is_due(sampler.time_ns.get()))
            .then_some(Outcome::ended(WalkEnd::NO_THREAD_STATE));
    }
    let state = ThreadState {
        address: UserAddr(known.state),
        interpreter: UserAddr(known.interpreter),
    };
    prove(&Current, &mut sampler.scratch, layout, state, thread_id).then_some(Outcome::DONE)
}

/// Begins the search through the thread states of the process.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_search() -> u32 {
    try_begin_search().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_begin_search() -> Option<Outcome> {
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let head = UserAddr(sampler.interpreters_head.get());
    match sampler.search.begin(&Current, layout, head) {
        Ok(()) => Some(Outcome::NEXT),
        Err(Fault) => None,
    }
}

/// Goes on with the search.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn find_thread() -> u32 {
    try_find_thread().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_find_thread() -> Option<Outcome> {
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let mut step = 0;
    while step < THREADS_PER_STEP {
        let thread_id = sampler.thread_id.get();
        match sampler
            .search
            .step(&Current, &mut sampler.scratch, layout, thread_id)
        {
            SearchStep::Next => {}
            SearchStep::Found(state) => {
                remember(sampler, state.address.0, state.interpreter.0);
                return Some(Outcome::DONE);
            }
            SearchStep::End(end) => {
                if end == WalkEnd::NO_THREAD_STATE {
                    remember(sampler, 0, 0);
                }
                return Some(Outcome::ended(end));
            }
        }
        step += 1;
    }
    Some(Outcome::NEXT)
}

/// Remembers which state the thread has, or that it has none.
#[inline(always)]
fn remember(sampler: &Sampler, state: u64, interpreter: u64) {
    let now_ns = sampler.time_ns.get();
    let thread_id = sampler.thread_id.get();
    let tgid = sampler.tgid.get();
    let mut absent = Trust::new(now_ns);
    if let Some(known) = THREADS.get_ptr(sampler.tid.get()) {
        // SAFETY: values of the map stay readable while the program runs.
        let known = unsafe { &*known };
        let same_thread = known.tgid == tgid && known.thread_id == thread_id;
        if same_thread && known.state == 0 && state == 0 {
            absent.since_ns = known.absent.since_ns;
        }
    }
    let thread = Thread {
        state,
        interpreter,
        thread_id,
        absent,
        named: Trust::new(now_ns),
        name: 0,
        tgid,
        reserved: 0,
    };
    // The map gives way by itself; an update that fails means a search at the next sample.
    let _ = THREADS.insert(sampler.tid.get(), thread, 0);
}
