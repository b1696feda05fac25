//! Which thread state is it?

use agent_common::{
    cache_age::CacheAge,
    layout::ABSENT,
    maps::TrackedThread,
    memory::{Fault, UserAddr, UserMemory as _},
    python::{SearchStep, gil_holder, is_attached, revalidate},
    record::PythonUnwindStatus,
};

use super::outcome::{FAULT, Outcome};
use crate::{current, maps::THREADS, memory::CurrentMemory, values::Sampler};

/// TrackedThread states that one call of [`find_thread`] looks at.
pub(crate) const THREADS_PER_STEP: u32 = 8;

/// The thread state that is remembered, if it can be proved: [`Outcome::DONE`], or
/// [`Outcome::NEXT`] when it has to be searched.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn load_cached_state() -> u32 {
    try_load_cached_state().unwrap_or(Outcome::NEXT).0
}

#[inline(always)]
fn try_load_cached_state() -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let known = THREADS.get_ptr(sampler.tid.get())?;
    // SAFETY: values of the map stay readable while the program runs.
    let known = unsafe { &*known };
    let thread_id = sampler.thread_id.get();
    if known.tgid != sampler.tgid.get() || known.thread_id != thread_id {
        return None;
    }
    let is_due = known.searched.is_due(sampler.time_ns.get());
    let state = known.states.first();
    if state.address.is_null() {
        return (!is_due).then_some(Outcome::ended(PythonUnwindStatus::NO_THREAD_STATE));
    }
    if layout.thread.previous == ABSENT && is_due {
        return None;
    }
    if !revalidate(&memory, &mut sampler.scratch, layout, state, thread_id) {
        return None;
    }
    // Who is attached to the newest interpreter is in no other one.
    let is_attached = is_attached(&sampler.scratch, layout);
    if !is_attached {
        let head = UserAddr(sampler.interpreters_head.get());
        if memory.word_or_zero(head) != known.newest_interpreter
            || known.states.has_several_interpreters() && is_due
        {
            return None;
        }
    }
    let holder = gil_holder(&memory, layout, UserAddr(sampler.gil_holder.get()));
    let holds_gil = is_attached || known.states.contain(holder);
    sampler.holds_gil.set(u32::from(holds_gil));
    Some(Outcome::DONE)
}

/// Begins the search through the thread states of the process.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_search() -> u32 {
    try_begin_search().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_begin_search() -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let head = UserAddr(sampler.interpreters_head.get());
    match sampler.search.begin(&memory, layout, head) {
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
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let mut step = 0;
    while step < THREADS_PER_STEP {
        let thread_id = sampler.thread_id.get();
        match sampler
            .search
            .step(&memory, &mut sampler.scratch, layout, thread_id)
        {
            SearchStep::Next => {}
            SearchStep::Done => {
                track(sampler);
                return Some(if sampler.search.states.count() == 0 {
                    Outcome::ended(PythonUnwindStatus::NO_THREAD_STATE)
                } else {
                    Outcome::DONE
                });
            }
            SearchStep::End(end) => return Some(Outcome::ended(end)),
        }
        step += 1;
    }
    Some(Outcome::NEXT)
}

/// Remembers a thread of a process that runs no Python, unless it is remembered already.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn track_thread() -> u32 {
    try_track_thread().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_track_thread() -> Option<Outcome> {
    let sampler = current::sampler()?;
    if let Some(known) = THREADS.get_ptr(sampler.tid.get()) {
        // SAFETY: values of the map stay readable while the program runs.
        if unsafe { (*known).tgid } == sampler.tgid.get() {
            return Some(Outcome::DONE);
        }
    }
    let thread = &mut sampler.thread;
    thread.states.clear();
    // Should Python be found, a search is due.
    thread.searched = CacheAge::NEVER;
    thread.named = CacheAge::new(sampler.time_ns.get());
    thread.name = 0;
    thread.newest_interpreter = 0;
    thread.thread_id = sampler.thread_id.get();
    thread.tgid = sampler.tgid.get();
    let thread: &TrackedThread = thread;
    let _ = THREADS.insert(sampler.tid.get(), thread, 0);
    Some(Outcome::DONE)
}

/// Remembers which states the thread has, or that it has none.
#[inline(always)]
fn track(sampler: &mut Sampler) {
    let now_ns = sampler.time_ns.get();
    let thread_id = sampler.thread_id.get();
    let tgid = sampler.tgid.get();
    // In place: a copy on the stack is more than older verifiers follow.
    let thread = &mut sampler.thread;
    thread.searched = CacheAge::new(now_ns);
    thread.named = CacheAge::new(now_ns);
    thread.name = 0;
    if let Some(known) = THREADS.get_ptr(sampler.tid.get()) {
        // SAFETY: values of the map stay readable while the program runs.
        let known = unsafe { &*known };
        if known.tgid == tgid && known.thread_id == thread_id {
            let states = &sampler.search.states;
            let is_same = known.states.first().address == states.first().address;
            let was_searched = known.searched.since_ns != CacheAge::NEVER.since_ns;
            if was_searched && is_same && known.states.count() == states.count() {
                thread.searched.since_ns = known.searched.since_ns;
            }
            thread.named = known.named;
            thread.name = known.name;
        }
    }
    thread.states = sampler.search.states;
    thread.newest_interpreter = sampler.search.newest_interpreter();
    thread.thread_id = thread_id;
    thread.tgid = tgid;
    // The map gives way by itself; an update that fails means a search at the next sample.
    let thread: &TrackedThread = thread;
    let _ = THREADS.insert(sampler.tid.get(), thread, 0);
}
