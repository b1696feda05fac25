//! Tasks in made-up memory, whole and damaged.

mod sampled;

use std::iter;

use agent_common::memory::UserAddr;

use super::{Task, TaskState, Tasks, TasksError, image::*, stack::MAX_DEPTH};

impl Image {
    fn tasks(&self) -> Tasks {
        self.read().unwrap()
    }
}

/// Whether what awaits a task is a set of futures: one byte.
const IS_SET: u64 = 109;

fn names(tasks: &Tasks) -> Vec<&str> {
    tasks.found.iter().map(|task| &*task.name).collect()
}

#[test]
fn tasks_are_in_the_order_of_their_list() {
    let tasks = Image::with_tasks(3).tasks();
    assert_eq!(names(&tasks), ["Task-1", "Task-2", "Task-3"]);
    assert_eq!((tasks.changed, tasks.more, tasks.is_cut), (0, 0, false));
    for task in &tasks.found {
        assert_eq!(task.thread, Some(77));
        assert_eq!(task.state, Some(TaskState::Waiting));
        assert_eq!(task.frames.as_ref().unwrap().len(), 1);
    }
}

#[test]
fn tasks_of_threads_that_have_ended_have_none() {
    let mut image = Image::with_tasks(1);
    image.link(&[THREAD + 880]);
    image.link(&[INTERPRETER + 10_880, task(0) + NODE]);
    let tasks = image.tasks();
    assert_eq!(names(&tasks), ["Task-1"]);
    assert_eq!(tasks.found[0].thread, None);
}

#[test]
fn without_tasks_the_modules_tell_whether_there_is_asyncio() {
    let mut image = Image::new();
    // The modules cannot be read.
    assert!(image.tasks().found.is_empty());
    // An empty dictionary.
    let (modules, keys) = (0x4_4000, 0x4_5000);
    image.set(INTERPRETER + 7688, modules);
    image.set(modules + 32, keys);
    image.bytes(keys + 9, &[3]);
    assert!(matches!(image.read(), Err(TasksError::NotLoaded)));
}

#[test]
fn one_that_is_no_task_is_left_out_and_counted() {
    for (offset, value) in [(8, NUMBER_CLASS), (NODE + 8, task(0) + NODE + 16), (104, 0)] {
        let mut image = Image::with_tasks(3);
        image.set(task(1) + offset, value);
        let tasks = image.tasks();
        assert_eq!(names(&tasks), ["Task-1", "Task-3"], "{offset}");
        assert_eq!((tasks.changed, tasks.is_cut), (1, false), "{offset}");
    }
}

#[test]
fn a_list_that_leads_elsewhere_ends() {
    // Back to the first one, to itself, nowhere.
    for next in [task(0) + NODE, task(2) + NODE, 0, 1, u64::MAX - 7, END - 8] {
        let mut image = Image::with_tasks(3);
        image.set(task(2) + NODE, next);
        let tasks = image.tasks();
        // One without a link is no longer in the list.
        let found = if next == 0 { 2 } else { 3 };
        assert_eq!(tasks.found.len(), found, "{next:#x}");
        assert!(tasks.is_cut, "{next:#x}");
    }
}

#[test]
fn awaiters_are_those_of_a_set_as_well() {
    let mut image = Image::with_tasks(4);
    image.set(task(1) + AWAITED_BY, task(0));
    image.set(task(2) + AWAITED_BY, SET);
    image.bytes(task(2) + IS_SET, &[1]);
    image.set(SET + 32, 7);
    image.set(SET + 40, SET + 64);
    image.set(SET + 64, task(3));
    // One was removed; one is no future.
    image.set(SET + 80, task(0));
    image.set(SET + 88, u64::MAX);
    image.set(SET + 96, NUMBER_CLASS);
    image.set(SET + 64 + 7 * 16, task(1));
    let awaiters = |tasks: &Tasks, nth: usize| -> Vec<String> {
        let awaiters = tasks.found[nth].awaited_by.iter();
        awaiters.map(|it| it.name.clone()).collect()
    };
    let tasks = image.tasks();
    assert_eq!(awaiters(&tasks, 0), [""; 0]);
    assert_eq!(awaiters(&tasks, 1), ["Task-1"]);
    assert_eq!(awaiters(&tasks, 2), ["Task-4", "Task-2"]);
    for mask in [6, u64::MAX, (1 << 40) - 1] {
        image.set(SET + 32, mask);
        assert_eq!(awaiters(&image.tasks(), 2), [""; 0], "{mask:#x}");
    }
}

#[test]
fn futures_stand_between_tasks() {
    let mut image = Image::with_tasks(4);
    // The second one is a future, awaited by the first one; and two futures that await each other.
    image.set(task(2) + AWAITED_BY, task(1));
    image.set(task(1) + AWAITED_BY, task(0));
    image.bytes(task(1) + IS_TASK, &[0]);
    image.link(&[THREAD + 880, task(0) + NODE, task(2) + NODE]);
    let tasks = image.tasks();
    assert_eq!(names(&tasks), ["Task-1", "Task-3"]);
    assert_eq!(tasks.found[1].awaited_by[0].address, task(0));
    image.set(task(1) + AWAITED_BY, task(3));
    image.set(task(3) + AWAITED_BY, task(1));
    image.bytes(task(3) + IS_TASK, &[0]);
    assert!(image.tasks().found[1].awaited_by.is_empty());
}

#[test]
fn coroutines_are_followed_and_bounded() {
    let mut image = Image::with_tasks(1);
    let deep = MAX_DEPTH as u64 + 500;
    for nth in 0..deep {
        image.coroutine(nth, AWAITING, coroutine(nth + 1) | 1);
    }
    image.coroutine(deep, SUSPENDED, 0);
    let task = &image.tasks().found[0];
    assert_eq!(task.frames.as_ref().unwrap().len(), MAX_DEPTH);
    assert!(task.is_cut);
    image.coroutine(20, SUSPENDED, 0);
    let task = &image.tasks().found[0];
    assert_eq!(task.frames.as_ref().unwrap().len(), 21);
    assert!(!task.is_cut);
    // One that awaits itself.
    image.coroutine(20, AWAITING, coroutine(20));
    let task = &image.tasks().found[0];
    assert_eq!((&task.frames, task.state), (&None, None));
    // One whose stack is not behind its frame.
    image.set(coroutine(20) + FRAME + STACK_POINTER, coroutine(20));
    assert_eq!(image.tasks().found[0].frames, None);
}

#[test]
fn one_whose_coroutine_has_ended_is_left_out() {
    let mut image = Image::with_tasks(2);
    image.coroutine(0, 4, 0);
    let tasks = image.tasks();
    assert_eq!(names(&tasks), ["Task-2"]);
    assert_eq!(tasks.changed, 1);
}

#[test]
fn numbers_of_names_are_read_to_their_bound() {
    let name = |tag: u64, digits: u64| {
        let mut image = Image::with_tasks(1);
        image.set(NAMES + 16, tag);
        image.set(NAMES + 24, digits);
        let tasks = image.tasks();
        tasks.found.first().map(|task| task.name.clone())
    };
    assert_eq!(name(1 << 3, 7).as_deref(), Some("Task-7"));
    assert_eq!(name(1, 7).as_deref(), Some("Task-0"));
    assert_eq!(name(2 << 3, 1 << 32).as_deref(), Some("Task-1073741824"));
    // A negative one, and one of many digits.
    assert_eq!(name((1 << 3) | 2, 7), None);
    assert_eq!(name(!7, 7), None);
}

#[test]
fn damaged_memory_has_an_end() {
    let whole = Image::tangled();
    let found = whole.tasks().found;
    assert_eq!(found.len() as u64, TANGLED);
    let depth = |task: &Task| task.frames.as_ref().unwrap().len();
    assert!(found.iter().all(|task| depth(task) == 2));
    let mut random = fastrand::Rng::with_seed(1);
    let mut is_read = 0;
    for _ in 0..500 {
        let mut image = whole.clone();
        for _ in 0..20 {
            image.damage(|| random.u64(..));
        }
        // The debug offsets may be damaged, or the list of threads.
        let Ok(tasks) = image.read() else { continue };
        is_read += 1;
        assert!(tasks.found.len() <= 20 + 256);
    }
    assert!(is_read > 250, "{is_read}");
}
