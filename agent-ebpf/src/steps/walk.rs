//! Which frames does the thread run?

use agent_common::walk::WalkStep;

use super::{FAULT, Outcome};
use crate::{
    code_objects::{Memo, OfProcess, WithMemo},
    memory::Current,
    sampler::Sampler,
};

/// Frames that one call of [`walk_frames`] looks at.
pub(crate) const FRAMES_PER_STEP: u32 = 4;

impl From<WalkStep> for Outcome {
    #[inline(always)]
    fn from(step: WalkStep) -> Self {
        match step {
            WalkStep::Next => Self::NEXT,
            WalkStep::End(end) => Self::ended(end),
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
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let step = sampler.walk.begin(&Current, &mut sampler.scratch, layout);
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
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let mut code_objects = WithMemo {
        process: OfProcess::of(sampler),
        memo: Memo::current()?,
    };
    let mut step = 0;
    while step < FRAMES_PER_STEP {
        let outcome = sampler
            .walk
            .step(&Current, &mut sampler.scratch, layout, &mut code_objects);
        if outcome != WalkStep::Next {
            return Some(outcome.into());
        }
        step += 1;
    }
    Some(Outcome::NEXT)
}
