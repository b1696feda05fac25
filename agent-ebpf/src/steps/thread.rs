//! Which thread state is it?

use agent_common::{
    layout::{ABSENT, GilStyle, Layout},
    maps::Thread,
    memory::{Fault, UserAddr, UserMemory as _},
    record::WalkEnd,
    thread::{SearchStep, holds_gil, prove},
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
    let is_due = known.searched.is_due(sampler.time_ns.get());
    let Some(state) = known.states.get(0) else {
        return (!is_due).then_some(Outcome::ended(WalkEnd::NO_THREAD_STATE));
    };
    if layout.thread.previous == ABSENT && is_due {
        return None;
    }
    if !prove(&Current, &mut sampler.scratch, layout, state, thread_id) {
        return None;
    }
    let holder = UserAddr(sampler.gil_holder.get());
    let holds_gil = holds_gil(&Current, &sampler.scratch, layout, state.address, holder);
    sampler.holds_gil.set(u32::from(holds_gil == Some(true)));
    // Who is attached to the newest interpreter is in no other one.
    let may_be_elsewhere =
        layout.interpreter.gil_style != GilStyle::IN_THREAD || holds_gil != Some(true);
    if may_be_elsewhere {
        let head = UserAddr(sampler.interpreters_head.get());
        if Current.word(head) != Ok(known.newest_interpreter)
            || known.states.has_several_interpreters() && is_due
        {
            return None;
        }
    }
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
            SearchStep::Done => {
                remember(sampler);
                return Some(if sampler.search.states.count() == 0 {
                    Outcome::ended(WalkEnd::NO_THREAD_STATE)
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

/// Remembers which states the thread has, or that it has none.
#[inline(always)]
fn remember(sampler: &Sampler) {
    let now_ns = sampler.time_ns.get();
    let thread_id = sampler.thread_id.get();
    let tgid = sampler.tgid.get();
    let states = sampler.search.states;
    let mut searched = Trust::new(now_ns);
    let mut named = Trust::new(now_ns);
    let mut name = 0;
    if let Some(known) = THREADS.get_ptr(sampler.tid.get()) {
        // SAFETY: values of the map stay readable while the program runs.
        let known = unsafe { &*known };
        if known.tgid == tgid && known.thread_id == thread_id {
            if known.states.get(0) == states.get(0) && known.states.count() == states.count() {
                searched.since_ns = known.searched.since_ns;
            }
            named = known.named;
            name = known.name;
        }
    }
    let thread = Thread {
        states,
        newest_interpreter: sampler.search.newest_interpreter(),
        thread_id,
        searched,
        named,
        name,
        tgid,
        reserved: 0,
    };
    // The map gives way by itself; an update that fails means a search at the next sample.
    let _ = THREADS.insert(sampler.tid.get(), thread, 0);
}

/// Goes to the state that the thread has in an older interpreter, to walk its frames below those
/// that were walked: [`Outcome::DONE`] if it is in the slot, else `end`.
#[inline(always)]
pub(super) fn enter_outer_state(sampler: &mut Sampler, layout: &Layout, end: WalkEnd) -> Outcome {
    let nth = sampler.nth_state.get() + 1;
    sampler.nth_state.set(nth);
    let outer = THREADS.get_ptr(sampler.tid.get()).and_then(|known| {
        // SAFETY: values of the map stay readable while the program runs.
        unsafe { (*known).states.get(nth) }
    });
    let Some(state) = outer else {
        return Outcome::ended(end);
    };
    let thread_id = sampler.thread_id.get();
    if prove(&Current, &mut sampler.scratch, layout, state, thread_id) {
        Outcome::DONE
    } else {
        Outcome::ended(WalkEnd::THREAD_FAULT)
    }
}
