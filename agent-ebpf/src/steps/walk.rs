//! Which frames does the thread run?

use agent_common::{
    layout::ABSENT,
    limits::MAX_STATES,
    python::{PythonStep, is_attached, revalidate},
    record::PythonUnwindStatus,
};

use super::outcome::{FAULT, Outcome};
use crate::{
    code_objects::{CachedSymbols, ProcessCode},
    current,
    maps::THREADS,
    memory::CurrentMemory,
};

/// Frames that one call of [`walk_frames`] looks at.
pub(crate) const FRAMES_PER_STEP: u32 = 4;

impl From<PythonStep> for Outcome {
    #[inline(always)]
    fn from(step: PythonStep) -> Self {
        match step {
            PythonStep::Next => Self::NEXT,
            PythonStep::End(end) => Self::ended(end),
        }
    }
}

/// Begins at the newest frame of the thread state that is in the slot.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_walk() -> u32 {
    try_begin_walk().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_begin_walk() -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let step = sampler.walk.begin(&memory, &mut sampler.scratch, layout);
    Some(step.into())
}

/// Goes on with the walk.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn walk_frames() -> u32 {
    try_walk_frames().unwrap_or(FAULT).0
}

#[inline(always)]
fn try_walk_frames() -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let mut code_objects = CachedSymbols {
        process: ProcessCode::of(sampler),
        code_cache: current::code_cache()?,
    };
    let mut step = 0;
    while step < FRAMES_PER_STEP {
        let outcome = sampler
            .walk
            .step(&memory, &mut sampler.scratch, layout, &mut code_objects);
        if let PythonStep::End(end) = outcome {
            return Some(Outcome(continue_walk(u32::from(end.0))));
        }
        step += 1;
    }
    Some(Outcome::NEXT)
}

/// Goes on after a walk that came to `end`: with the frames of another state of the thread below
/// those that were walked, or once more from another start. [`Outcome::NEXT`], or `end` again.
///
/// A function of its own: with it [`walk_frames`] is more than older verifiers take.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn continue_walk(end: u32) -> u32 {
    let end = PythonUnwindStatus(end as u16);
    let mut next = try_walk_below(end);
    if next.is_none()
        && (end == PythonUnwindStatus::COMPLETE || end == PythonUnwindStatus::NO_FRAME)
    {
        next = try_walk_outer_state();
    }
    next.unwrap_or(Outcome::ended(end)).0
}

/// Walks once more from the loop that called the newest one, when the walk from that led nowhere.
#[inline(always)]
fn try_walk_below(end: PythonUnwindStatus) -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let leads_nowhere = end == PythonUnwindStatus::FRAME_FAULT
        || end == PythonUnwindStatus::BAD_POINTER
        || end == PythonUnwindStatus::NO_FRAME;
    let is_first = sampler.is_second_walk.get() == 0 && sampler.nth_state.get() == 0;
    if layout.thread.cframe_previous == ABSENT || !leads_nowhere || !is_first {
        return None;
    }
    sampler.is_second_walk.set(1);
    let known = THREADS.get_ptr(sampler.tid.get())?;
    // SAFETY: values of the map stay readable while the program runs.
    let state = unsafe { (*known).states.get(sampler.nth_state.get()) };
    let thread_id = sampler.thread_id.get();
    if !revalidate(&memory, &mut sampler.scratch, layout, state, thread_id) {
        return None;
    }
    sampler.walk.clear();
    sampler.last_fault.clear();
    let step = sampler
        .walk
        .begin_at_caller(&memory, &mut sampler.scratch, layout);
    // Without a frame there is no loop: the state runs nothing.
    (step == PythonStep::Next).then_some(Outcome::NEXT)
}

/// Begins at the newest frame of the state that the thread has in an older interpreter.
#[inline(always)]
fn try_walk_outer_state() -> Option<Outcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let thread_id = sampler.thread_id.get();
    let mut tried = 0;
    while tried < MAX_STATES {
        tried += 1;
        let nth = sampler.nth_state.get() + 1;
        sampler.nth_state.set(nth);
        let known = THREADS.get_ptr(sampler.tid.get())?;
        // SAFETY: values of the map stay readable while the program runs.
        let state = unsafe { (*known).states.get(nth) };
        if state.address.is_null() {
            return None;
        }
        if !revalidate(&memory, &mut sampler.scratch, layout, state, thread_id) {
            return Some(Outcome::ended(PythonUnwindStatus::THREAD_FAULT));
        }
        if is_attached(&sampler.scratch, layout) {
            sampler.holds_gil.set(1);
        }
        let step = sampler.walk.begin(&memory, &mut sampler.scratch, layout);
        // An interpreter that runs nothing was only made by one that does.
        if step != PythonStep::End(PythonUnwindStatus::NO_FRAME) {
            return Some(step.into());
        }
    }
    None
}
