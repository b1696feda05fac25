//! The steps that walk the Python frames of the sampled thread.

use agent_common::{
    layout::Layout,
    maps::TrackedThread,
    python::{PythonOutcome, ThreadWalk},
    record::PythonUnwindStatus,
};

use crate::{code_objects::ResolvedLater, current, memory::CurrentMemory, values::Sampler};

/// Frames that one call of [`walk_frames`] visits.
pub(crate) const FRAMES_PER_STEP: u32 = 4;

/// The walk of the sampled thread, and that thread.
#[inline(always)]
pub(super) fn thread_walk<'a>(
    sampler: &'a mut Sampler,
    memory: &'a CurrentMemory,
    layout: &'a Layout,
) -> (ThreadWalk<'a, CurrentMemory>, &'a TrackedThread) {
    let walk = ThreadWalk {
        memory,
        scratch: &mut sampler.scratch,
        layout,
        walk: &mut sampler.walk,
        position: &mut sampler.position,
        thread_id: sampler.thread_id.get(),
    };
    (walk, &sampler.thread.thread)
}

/// Starts at the newest frame of the thread state that is in the slot.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_walk() -> u32 {
    try_begin_walk().unwrap_or(PythonOutcome::FAULT).0
}

#[inline(always)]
fn try_begin_walk() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let (mut walk, _) = thread_walk(sampler, &memory, layout);
    Some(walk.begin())
}

/// Visits [`FRAMES_PER_STEP`] frames.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn walk_frames() -> u32 {
    try_walk_frames().unwrap_or(PythonOutcome::FAULT).0
}

#[inline(always)]
fn try_walk_frames() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let (mut walk, _) = thread_walk(sampler, &memory, layout);
    let outcome = walk.walk_frames(&mut ResolvedLater, FRAMES_PER_STEP);
    if outcome == PythonOutcome::NEXT {
        return Some(outcome);
    }
    Some(PythonOutcome(continue_walk(u32::from(outcome.status().0))))
}

/// Continues after a chain of frames that ended with `status`.
///
/// A function of its own: with it [`walk_frames`] exceeds what older verifiers accept.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn continue_walk(status: u32) -> u32 {
    let status = PythonUnwindStatus(status as u16);
    try_continue_walk(status)
        .unwrap_or(PythonOutcome::ended(status))
        .0
}

#[inline(always)]
fn try_continue_walk(status: PythonUnwindStatus) -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let (mut walk, thread) = thread_walk(sampler, &memory, layout);
    Some(walk.continue_walk(&thread.states, status))
}
