//! Samples of tasks, of memory that changes while it is read.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use agent_common::memory::{Fault, UserMemory};

use super::{
    super::{SampledTasks, Sampler, TaskActivity, TaskStack},
    *,
};

/// `task_fut_waiter` and `fut_state` of 3.14.
const AWAITED: u64 = 120;
const FUTURE_STATE: u64 = 104;

/// Bytes of a page.
const PAGE: u64 = 64;

impl Image {
    /// The list of the thread has these tasks.
    fn list(&mut self, tasks: &[u64]) {
        let nodes = tasks.iter().map(|nth| task(*nth) + NODE);
        let nodes: Vec<u64> = iter::once(THREAD + 880).chain(nodes).collect();
        self.link(&nodes);
    }
}

/// Memory of which copies are kept, page by page, and that changes when so many have been made.
struct Copied {
    image: RefCell<Image>,
    pages: RefCell<HashMap<u64, Vec<u8>>>,
    copies: Cell<usize>,
    change_after: usize,
    change: fn(&mut Image),
}

impl Copied {
    fn new(image: &Image, change_after: usize, change: fn(&mut Image)) -> Self {
        Self {
            image: RefCell::new(image.clone()),
            pages: RefCell::default(),
            copies: Cell::new(0),
            change_after,
            change,
        }
    }

    fn page(&self, number: u64) -> Result<Vec<u8>, Fault> {
        if let Some(page) = self.pages.borrow().get(&number) {
            return Ok(page.clone());
        }
        if self.copies.get() == self.change_after {
            (self.change)(&mut self.image.borrow_mut());
        }
        self.copies.set(self.copies.get() + 1);
        let mut page = vec![0; size(PAGE)];
        let bytes = u32::try_from(PAGE).unwrap();
        let address = UserAddr(number * PAGE);
        // SAFETY: `page` has this length.
        unsafe {
            self.image
                .borrow()
                .copy(address, page.as_mut_ptr(), bytes)?;
        };
        self.pages.borrow_mut().insert(number, page.clone());
        Ok(page)
    }

    fn clear(&self, addresses: &[UserAddr]) {
        for address in addresses {
            for number in 0..=256 / PAGE {
                self.pages.borrow_mut().remove(&(address.0 / PAGE + number));
            }
        }
    }
}

impl UserMemory for Copied {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        for nth in 0..u64::from(bytes) {
            let at = address.0.checked_add(nth).ok_or(Fault)?;
            let byte = self.page(at / PAGE)?[size(at % PAGE)];
            // SAFETY: the caller guarantees `bytes` valid bytes at `into`.
            unsafe { into.add(size(nth)).write(byte) };
        }
        Ok(())
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Stacks of tasks of memory that changes between two looks.
fn sampled(image: &Image, most: usize, change: impl FnOnce(&mut Image)) -> SampledTasks {
    let memory = Copied::new(image, usize::MAX, |_| ());
    let mut reader = Sampler::new(&memory, &target(), location()).unwrap();
    let chosen = reader.choose(most, later(), |addresses| memory.clear(addresses));
    let looked = reader.look(chosen, later());
    change(&mut memory.image.borrow_mut());
    memory.pages.borrow_mut().clear();
    let mut sampled = reader.prove(looked, later());
    sampled.stacks.sort_by_key(|stack| stack.address);
    sampled
}

/// That of the first task.
fn stack(image: &Image, change: impl FnOnce(&mut Image)) -> TaskStack {
    sampled(image, 1, change).stacks.remove(0)
}

#[test]
fn samples_say_what_tasks_do() {
    let mut image = Image::with_tasks(6);
    // A future without a result, one with one, and one of another class, which keeps its state elsewhere.
    let (pending, finished, other) = (task(10), task(11), task(12));
    for future in [pending, finished] {
        image.set(future + 8, TASK_CLASS);
    }
    image.set(other + 8, NUMBER_CLASS);
    image.bytes(finished + FUTURE_STATE, &[2]);
    image.bytes(other + FUTURE_STATE, &[2]);
    image.set(task(0) + AWAITED, pending);
    image.set(task(1) + AWAITED, finished);
    // The third one awaits nothing; one was not started; one runs.
    let state = facts().states.created.cast_unsigned();
    image.coroutine(3, state, 0);
    image.set(task(3) + AWAITED, pending);
    image.set(task(4) + AWAITED, other);
    image.coroutine(5, facts().states.executing.cast_unsigned(), 0);
    let sampled = sampled(&image, 10, |_| ());
    assert!((sampled.weight - 1.0).abs() < 1e-9 && !sampled.is_cut);
    let activities: Vec<_> = sampled.stacks.iter().map(|stack| stack.activity).collect();
    let [awaits, is_ready, runs] = [
        TaskActivity::Awaits,
        TaskActivity::IsReady,
        TaskActivity::Runs,
    ];
    assert_eq!(
        activities,
        [awaits, is_ready, is_ready, is_ready, awaits, runs]
    );
    let (running, others) = sampled.stacks.split_last().unwrap();
    // Its frames are not on its thread.
    assert_eq!(running.frames, None);
    for stack in others {
        assert_eq!(stack.thread, UserAddr(THREAD));
        let frames = stack.frames.as_ref().unwrap();
        assert!(frames.len() == 1 && frames[0].is_coroutine && !stack.is_cut);
    }
}

#[test]
fn some_tasks_stand_for_all() {
    let image = Image::with_tasks(20);
    let mut seen = [0; 20];
    for _ in 0..200 {
        let sampled = sampled(&image, 5, |_| ());
        assert_eq!(sampled.stacks.len(), 5);
        assert!((sampled.weight - 4.0).abs() < 1e-9);
        for stack in sampled.stacks {
            seen[size((stack.address.unwrap().0 - TASKS) / 256)] += 1;
        }
    }
    // 50 of each: five standard deviations.
    assert!(
        seen.iter().all(|times| (19..=81).contains(times)),
        "{seen:?}"
    );
}

#[test]
fn of_tasks_for_which_there_is_no_time_any_are_left_out() {
    let image = Image::with_tasks(200);
    let mut seen = BTreeSet::new();
    for _ in 0..64 {
        let mut reader = Sampler::new(&image, &target(), location()).unwrap();
        let chosen = reader.choose(300, Instant::now(), |_| ());
        let looked = reader.look(chosen, later());
        let sampled = reader.prove(looked, later());
        assert!(sampled.is_cut && sampled.stacks.len() < 100);
        seen.extend(sampled.stacks.iter().map(|stack| stack.address.unwrap().0));
    }
    // The oldest ones or the newest ones.
    assert!(seen.contains(&task(0)) && seen.contains(&task(199)));
    let mut reader = Sampler::new(&image, &target(), location()).unwrap();
    let chosen = reader.choose(300, later(), |_| ());
    let looked = reader.look(chosen, Instant::now());
    let sampled = reader.prove(looked, later());
    assert!(sampled.stacks.len() == 1 && (sampled.weight - 200.0).abs() < 1e-9);
}

#[test]
fn the_part_of_a_stack_that_two_looks_have_seen_is_used() {
    let mut image = Image::with_tasks(1);
    image.coroutine(0, AWAITING, coroutine(1));
    image.coroutine(1, AWAITING, coroutine(2));
    image.coroutine(2, SUSPENDED, 0);
    let instruction = |nth: u64| coroutine(nth) + FRAME + 56;
    let seen = |change: &dyn Fn(&mut Image)| {
        let stack = stack(&image, change);
        assert_eq!(stack.activity, TaskActivity::IsReady);
        let depth = stack.frames.as_ref().map(Vec::len);
        (depth, stack.is_cut, stack.address.is_some())
    };
    assert_eq!(seen(&|_| ()), (Some(3), false, true));
    // The innermost one has gone on, and has called another one.
    assert_eq!(
        seen(&|image| image.set(instruction(2), 8)),
        (Some(3), false, true)
    );
    let calls = |image: &mut Image| {
        image.coroutine(2, AWAITING, coroutine(3));
        image.coroutine(3, SUSPENDED, 0);
    };
    assert_eq!(seen(&calls), (Some(3), false, true));
    // The second one has gone on; so has the first one; another one is awaited.
    assert_eq!(
        seen(&|image| image.set(instruction(1), 8)),
        (Some(2), true, true)
    );
    assert_eq!(
        seen(&|image| image.set(instruction(0), 8)),
        (Some(1), true, true)
    );
    let awaits_another = |image: &mut Image| {
        image.coroutine(1, AWAITING, coroutine(3));
        image.coroutine(3, SUSPENDED, 0);
    };
    assert_eq!(seen(&awaits_another), (Some(2), true, true));
    // It has another coroutine, or has ended: it counts, without a stack.
    let other = |image: &mut Image| {
        image.set(task(0) + COROUTINE, coroutine(5));
        image.coroutine(5, SUSPENDED, 0);
    };
    assert_eq!(seen(&other), (None, false, true));
    assert_eq!(
        seen(&|image| image.set(task(0) + NODE, 0)),
        (None, false, false)
    );
}

/// A task that runs has the same first functions as before and after.
#[test]
fn a_task_that_begins_to_run_or_ends_it_keeps_what_has_not_changed() {
    let executing = facts().states.executing.cast_unsigned();
    let mut waits = Image::with_tasks(1);
    waits.coroutine(0, AWAITING, coroutine(1));
    waits.coroutine(1, SUSPENDED, 0);
    let mut runs = waits.clone();
    runs.coroutine(0, executing, 0);
    runs.coroutine(1, executing, 0);
    let fields = &series().layout;
    let newest = coroutine(1) + FRAME;
    runs.set(THREAD + u64::from(fields.thread.frame), newest);
    runs.set(
        newest + u64::from(fields.frame.previous),
        coroutine(0) + FRAME,
    );
    runs.set(THREAD + SECTION[11], task(0));
    for (first, second, activity) in [
        (&waits, &runs, TaskActivity::IsReady),
        (&runs, &waits, TaskActivity::Runs),
        (&runs, &runs, TaskActivity::Runs),
    ] {
        let stack = stack(first, |image| *image = second.clone());
        assert_eq!(stack.activity, activity);
        assert_eq!(stack.frames.map(|frames| frames.len()), Some(2));
        assert!(!stack.is_cut);
    }
}

/// Whenever a task ends and another one is new, all others are found.
#[test]
fn lists_that_change_while_copies_of_them_are_read_are_whole() {
    let mut image = Image::with_tasks(8);
    image.list(&[0, 1, 2, 3, 4, 5, 6]);
    let change = |image: &mut Image| {
        // One is new where another one was.
        image.list(&[0, 2, 4, 5, 7, 1]);
        for ended in [3, 6] {
            image.set(task(ended) + NODE, 0);
            image.set(task(ended) + NODE + 8, 0);
        }
    };
    let mut copies = 0;
    // Each several times, from either end.
    for attempt in 0.. {
        let change_after = attempt / 8;
        let memory = Copied::new(&image, change_after, change);
        let mut reader = Sampler::new(&memory, &target(), location()).unwrap();
        let chosen = reader.choose(100, later(), |addresses| memory.clear(addresses));
        let looked = reader.look(chosen, later());
        let sampled = reader.prove(looked, later());
        assert!(!sampled.is_cut, "{change_after}");
        let found = sampled.stacks.iter().filter_map(|stack| stack.address);
        let found: BTreeSet<u64> = found.map(|address| address.0).collect();
        for there in [0, 2, 4, 5] {
            assert!(found.contains(&task(there)), "{change_after}: {there}");
        }
        if memory.copies.get() < change_after {
            break;
        }
        copies += 1;
    }
    assert!(copies > 400);
}

#[test]
fn tasks_that_no_thread_runs_any_more_have_no_samples() {
    let mut image = Image::with_tasks(2);
    image.link(&[THREAD + 880, task(0) + NODE]);
    image.link(&[INTERPRETER + 10_880, task(1) + NODE]);
    let sampled = sampled(&image, 10, |_| ());
    let addresses: Vec<_> = sampled.stacks.iter().map(|stack| stack.address).collect();
    assert_eq!(addresses, [Some(UserAddr(task(0)))]);
    assert!((sampled.weight - 1.0).abs() < 1e-9);
}

/// Each time that so many copies of memory were made, it is damaged once more.
#[test]
fn memory_that_is_damaged_while_it_is_read_has_an_end() {
    let mut whole = Image::tangled();
    whole.coroutine(3, facts().states.executing.cast_unsigned(), 0);
    let (mut opened, mut with_frames) = (0, 0);
    for seed in 0..500 {
        fastrand::seed(seed);
        let memory = Damaged::new(whole.clone(), 1 + seed % 64, || fastrand::u64(..));
        // The debug offsets may be damaged, or the list of threads.
        let Ok(mut reader) = Sampler::new(&memory, &target(), location()) else {
            continue;
        };
        opened += 1;
        let chosen = reader.choose(8, later(), |_| ());
        let looked = reader.look(chosen, later());
        let sampled = reader.prove(looked, later());
        assert!(sampled.stacks.len() <= 8);
        for frames in sampled
            .stacks
            .iter()
            .filter_map(|stack| stack.frames.as_ref())
        {
            with_frames += usize::from(!frames.is_empty());
            assert!(frames.len() <= MAX_DEPTH);
        }
    }
    assert!(opened > 250 && with_frames > 500, "{opened} {with_frames}");
}
