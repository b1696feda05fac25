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

static WHOLE: LazyLock<Image> = LazyLock::new(Image::tangled);

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (before, every) = (input.byte() % 32, input.byte() % 64);
    let input = RefCell::new(input);
    let next = || u64::from(input.borrow_mut().half());
    let mut image = WHOLE.clone();
    for _ in 0..before {
        image.damage(next);
    }
    if let Ok(tasks) = image.read() {
        assert!(tasks.found.len() <= 10_000);
    }
    let memory = Damaged::new(image, every.into(), next);
    let Ok(mut sampler) = Sampler::new(&memory, &target(), location()) else {
        return;
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let chosen = sampler.choose(MOST, deadline, |_| ());
    let looked = sampler.look(chosen, deadline);
    let sampled = sampler.prove(looked, deadline);
    assert!(sampled.stacks.len() <= MOST);
}
