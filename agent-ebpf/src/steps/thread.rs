//! The steps that find the state of the sampled thread.

use agent_common::{
    cache_age::CacheAge,
    counter::Counter,
    maps::SearchedStates,
    memory::{Fault, UserAddr},
    python::{ProcessPointers, PythonOutcome, SearchStep},
    record::PythonUnwindStatus,
};
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;

use super::walk::thread_walk;
use crate::{current, maps::count, memory::CurrentMemory, threads, values::Sampler};

/// Thread states that one call of [`search_states`] visits.
pub(crate) const STATES_PER_STEP: u32 = 8;

/// Loads the cached state if it is still valid.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn load_cached_state() -> u32 {
    try_load_cached_state().unwrap_or(PythonOutcome::NEXT).0
}

#[inline(always)]
fn try_load_cached_state() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    if !threads::load(sampler) {
        return None;
    }
    let pointers = ProcessPointers {
        interpreters_head: UserAddr(sampler.interpreters_head.get()),
        gil_holder: UserAddr(sampler.gil_holder.get()),
    };
    let now_ns = sampler.time_ns.get();
    let (mut walk, thread) = thread_walk(sampler, &memory, layout);
    Some(walk.load_cached_state(thread, pointers, now_ns))
}

/// Starts the search through the thread states of the process.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_search() -> u32 {
    if may_search() == 0 {
        count(Counter::REFUSED_THREAD_SEARCHES);
        return PythonOutcome::ended(PythonUnwindStatus::OVER_BUDGET).0;
    }
    count(Counter::THREAD_SEARCHES);
    try_begin_search().unwrap_or(PythonOutcome::FAULT).0
}

/// Notes when the search begins; 0 where a process whose states take too long has had its share.
#[inline(always)]
fn may_search() -> u32 {
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    // SAFETY: the helper takes no arguments.
    sampler.search_began_ns.set(unsafe { bpf_ktime_get_ns() });
    sampler.may_search.get()
}

#[inline(always)]
fn try_begin_search() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let head = UserAddr(sampler.interpreters_head.get());
    // What was loaded for this sample; a thread that is not tracked has the id 0.
    let visited = if sampler.thread.tid == 0 {
        SearchedStates::NONE
    } else {
        let now_ns = sampler.time_ns.get();
        sampler.thread.thread.visited_states(layout, now_ns)
    };
    match sampler.search.begin(&memory, layout, head, visited) {
        Ok(()) => Some(PythonOutcome::NEXT),
        Err(Fault) => None,
    }
}

/// Visits [`STATES_PER_STEP`] thread states.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn search_states() -> u32 {
    try_search_states().unwrap_or(PythonOutcome::FAULT).0
}

#[inline(always)]
fn try_search_states() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let mut step = 0;
    while step < STATES_PER_STEP {
        let thread_id = sampler.thread_id.get();
        match sampler
            .search
            .step(&memory, &mut sampler.scratch, layout, thread_id)
        {
            SearchStep::Next => {}
            SearchStep::Done => {
                store_states(sampler);
                return Some(if sampler.search.states.count() == 0 {
                    PythonOutcome::ended(PythonUnwindStatus::NO_THREAD_STATE)
                } else {
                    PythonOutcome::DONE
                });
            }
            SearchStep::End(status) => return Some(PythonOutcome::ended(status)),
        }
        step += 1;
    }
    Some(PythonOutcome::NEXT)
}

/// Tracks a thread of a process that runs no Python, unless it is tracked already.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn track_thread() -> u32 {
    u32::from(try_track_thread().is_some())
}

#[inline(always)]
fn try_track_thread() -> Option<()> {
    let sampler = current::sampler()?;
    if threads::load(sampler) {
        return Some(());
    }
    let now_ns = sampler.time_ns.get();
    let thread = &mut sampler.thread.thread;
    thread.states.clear();
    // Should Python be found later, a search is due.
    thread.searched = CacheAge::NEVER;
    thread.named = CacheAge::new(now_ns);
    thread.name = 0;
    thread.searched_states = SearchedStates::NONE;
    threads::store(sampler);
    Some(())
}

/// Stores the states that the search has found, or that there are none.
#[inline(always)]
fn store_states(sampler: &mut Sampler) {
    let now_ns = sampler.time_ns.get();
    let is_tracked = threads::load(sampler);
    // In place: older verifiers reject a copy on the stack.
    let thread = &mut sampler.thread.thread;
    let states = &sampler.search.states;
    if is_tracked {
        let is_same = thread.states.first().address == states.first().address;
        let was_searched = thread.searched.since_ns != CacheAge::NEVER.since_ns;
        if !(was_searched && is_same && thread.states.count() == states.count()) {
            thread.searched = CacheAge::new(now_ns);
        } else if sampler.search.is_complete() {
            thread.searched.revalidated_ns = now_ns;
        }
    } else {
        thread.searched = CacheAge::new(now_ns);
        thread.named = CacheAge::new(now_ns);
        thread.name = 0;
    }
    thread.states = *states;
    thread.searched_states = sampler.search.searched_states();
    threads::store(sampler);
}
