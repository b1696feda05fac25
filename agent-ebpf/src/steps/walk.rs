//! Which frames does the thread run?

use agent_common::{layout::Layout, record::WalkEnd, walk::WalkStep};

use super::{FAULT, Outcome, thread::enter_outer_state};
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
    Some(match step {
        WalkStep::End(WalkEnd::NO_FRAME) => {
            // An interpreter that runs nothing now may have been started by one that does.
            match enter_outer_state(sampler, layout, WalkEnd::NO_FRAME) {
                Outcome::DONE => sampler
                    .walk
                    .begin(&Current, &mut sampler.scratch, layout)
                    .into(),
                outcome => outcome,
            }
        }
        step => step.into(),
    })
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
        if let WalkStep::End(end) = outcome {
            return Some(go_on_after(sampler, layout, end));
        }
        step += 1;
    }
    Some(Outcome::NEXT)
}

/// At the root of one state's frames those of the next one follow.
#[inline(always)]
fn go_on_after(sampler: &mut Sampler, layout: &Layout, end: WalkEnd) -> Outcome {
    if end != WalkEnd::ROOT {
        return Outcome::ended(end);
    }
    let outer = enter_outer_state(sampler, layout, end);
    if outer != Outcome::DONE {
        return outer;
    }
    match sampler.walk.begin(&Current, &mut sampler.scratch, layout) {
        // That one waits in no frame; those that were walked are the whole stack.
        WalkStep::End(WalkEnd::NO_FRAME) => Outcome::ended(end),
        step => step.into(),
    }
}
