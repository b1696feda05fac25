//! Tasks of asyncio, in memory that is damaged before and while it is read.

use std::{
    cell::RefCell,
    sync::LazyLock,
    time::{Duration, Instant},
};

use agent::fuzzing::tasks::{
    Sampler,
    image::{Damaged, Image, location, target},
};

use crate::input::Input;

/// Most tasks that are chosen.
const MOST: usize = 8;

/// Most frames of one.
const MOST_FRAMES: usize = 1_000;

/// Time for them: that of a run is not used up.
const LIMIT: Duration = Duration::from_secs(2);

static WHOLE: LazyLock<Image> = LazyLock::new(Image::tangled);

pub(super) fn run(bytes: &[u8]) {
    // Tasks are chosen at random.
    fastrand::seed(0);
    let mut input = Input::new(bytes);
    let (before, every) = (input.byte() % 32, input.byte() % 64);
    let input = RefCell::new(input);
    let next = || u64::from(input.borrow_mut().half());
    let mut image = WHOLE.clone();
    for _ in 0..before {
        image.damage(next);
    }
    let _ = image.read();
    let memory = Damaged::new(image, every.into(), next);
    let Ok(mut reader) = Sampler::new(&memory, &target(), location()) else {
        return;
    };
    let deadline = Instant::now() + LIMIT;
    let chosen = reader.choose(MOST, deadline, |_| ());
    let looked = reader.look(chosen, deadline);
    let sampled = reader.prove(looked, deadline);
    assert!(sampled.stacks.len() <= MOST && sampled.weight.is_finite());
    for stack in sampled.stacks {
        let frames = stack.frames.unwrap_or_default();
        assert!(frames.len() <= MOST_FRAMES);
    }
}
