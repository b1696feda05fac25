//! Tasks in made-up memory, whole and damaged.

mod sampled;

use std::iter;

use agent_common::memory::{Fault, UserAddr, UserMemory};

use super::{TaskState, Tasks, TasksError, read, stack::MAX_DEPTH};
use crate::python::{
    Version,
    asyncio::AsyncioOffsets,
    coroutines::CoroutineFacts,
    remote::Target,
    versions::{VersionSeries, series_of},
};

/// Where things are.
const START: u64 = 0x1_0000;
const RUNTIME: u64 = START;
const INTERPRETER: u64 = 0x2_0000;
const THREAD: u64 = 0x3_0000;
const TASK_CLASS: u64 = 0x4_0000;
const COROUTINE_CLASS: u64 = 0x4_1000;
const NUMBER_CLASS: u64 = 0x4_2000;
const SET: u64 = 0x4_3000;
const TASKS: u64 = 0x5_0000;
const NAMES: u64 = 0x6_0000;
const COROUTINES: u64 = 0x8_0000;
const END: u64 = 0x10_0000;

/// The words of the section in 3.14.10.
const SECTION: [u64; 13] = [
    168, 136, 96, 108, 109, 128, 152, 225_864, 10_880, 936, 864, 872, 880,
];
const AWAITED_BY: u64 = 96;
const IS_TASK: u64 = 108;
const IS_SET: u64 = 109;
const COROUTINE: u64 = 128;
const NAME: u64 = 136;
const NODE: u64 = 152;

/// `gi_iframe`, `gi_frame_state`, `stackpointer` and `localsplus` of 3.14.
const FRAME: u64 = 72;
const STATE: u64 = 67;
const STACK_POINTER: u64 = 64;
const LOCALS: u64 = 80;

const AWAITING: u8 = u8::MAX;
const SUSPENDED: u8 = u8::MAX - 1;

#[derive(Clone)]
struct Image(Vec<u8>);

impl UserMemory for Image {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let start = address.0.checked_sub(START).ok_or(Fault)?;
        let start = usize::try_from(start).map_err(|_| Fault)?;
        let end = start.checked_add(bytes as usize).ok_or(Fault)?;
        let found = self.0.get(start..end).ok_or(Fault)?;
        // SAFETY: the caller guarantees `bytes` valid bytes at `into`, which are not this image's.
        unsafe { into.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        Ok(())
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

fn series() -> &'static VersionSeries {
    series_of(Version::of_series(3, 14)).unwrap()
}

fn facts() -> CoroutineFacts {
    series().coroutines.unwrap()
}

fn task(nth: u64) -> u64 {
    TASKS + nth * 256
}

fn coroutine(nth: u64) -> u64 {
    COROUTINES + nth * 256
}

fn target() -> Target {
    let layout = series().layout;
    let head = u64::from(layout.interpreter.runtime_head);
    Target {
        interpreters_head: UserAddr(RUNTIME + head),
        gil_holder: None,
        layout,
    }
}

impl Image {
    /// A thread without tasks.
    fn new() -> Self {
        let mut image = Self(vec![0; size(END - START)]);
        let layout = &series().layout;
        let facts = facts();
        image.set(RUNTIME, u64::from_le_bytes(*b"xdebugpy"));
        for (position, value) in [
            (facts.modules, 7688),
            (facts.native_thread_id, 160),
            (facts.stack_pointer, STACK_POINTER),
            (facts.type_flags, 168),
            (facts.set_table, 40),
            (facts.set_mask, 32),
            (facts.number_tag, 16),
            (facts.number_digits, 24),
            (facts.frame, FRAME),
            (facts.state, STATE),
            (facts.node_next, 0),
            (facts.node_previous, 8),
        ] {
            image.set(RUNTIME + u64::from(position), value);
        }
        let at = |offset: u16| u64::from(offset);
        image.set(RUNTIME + at(layout.interpreter.runtime_head), INTERPRETER);
        image.set(INTERPRETER + at(layout.interpreter.threads_head), THREAD);
        image.set(THREAD + at(layout.thread.interpreter), INTERPRETER);
        image.set(THREAD + at(layout.thread.thread_id), 1);
        image.set(THREAD + 160, 77);
        image.link(&[INTERPRETER + 10_880]);
        image.link(&[THREAD + 880]);
        let name = at(layout.exception.class_name);
        let size = at(layout.object.class_basic_size);
        image.set(TASK_CLASS + size, 168);
        image.set(COROUTINE_CLASS + name, COROUTINE_CLASS + 0x803);
        image.bytes(COROUTINE_CLASS + 0x803, b"coroutine\0");
        image.set(COROUTINE_CLASS + size, FRAME + LOCALS);
        image.set(COROUTINE_CLASS + size + 8, 8);
        image.set(NUMBER_CLASS + 168, 1 << 24);
        image
    }

    /// The same with tasks that await nothing.
    fn with_tasks(count: u64) -> Self {
        let mut image = Self::new();
        for nth in 0..count {
            image.set(task(nth) + 8, TASK_CLASS);
            image.bytes(task(nth) + IS_TASK, &[1]);
            image.set(task(nth) + NAME, NAMES + nth * 64);
            image.set(task(nth) + COROUTINE, coroutine(nth));
            image.set(NAMES + nth * 64 + 8, NUMBER_CLASS);
            image.set(NAMES + nth * 64 + 16, 1 << 3);
            image.set(NAMES + nth * 64 + 24, nth + 1);
            image.coroutine(nth, SUSPENDED, 0);
        }
        let nodes = (0..count).map(|nth| task(nth) + NODE);
        let nodes: Vec<u64> = iter::once(THREAD + 880).chain(nodes).collect();
        image.link(&nodes);
        image
    }

    fn coroutine(&mut self, nth: u64, state: u8, awaited: u64) {
        let at = coroutine(nth);
        self.set(at + 8, COROUTINE_CLASS);
        self.bytes(at + STATE, &[state]);
        // `FRAME_OWNED_BY_GENERATOR`
        self.bytes(at + FRAME + 74, &[1]);
        self.set(at + FRAME + STACK_POINTER, at + FRAME + LOCALS + 8);
        self.set(at + FRAME + LOCALS, awaited);
    }

    fn link(&mut self, nodes: &[u64]) {
        for (nth, node) in nodes.iter().enumerate() {
            let next = nodes[(nth + 1) % nodes.len()];
            self.set(*node, next);
            self.set(next + 8, *node);
        }
    }

    fn set(&mut self, address: u64, word: u64) {
        self.bytes(address, &word.to_le_bytes());
    }

    fn bytes(&mut self, address: u64, bytes: &[u8]) {
        let start = size(address - START);
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self) -> Result<Tasks, TasksError> {
        let offsets = AsyncioOffsets::new(&SECTION).unwrap();
        read(self, &target(), offsets, &facts())
    }

    fn tasks(&self) -> Tasks {
        self.read().unwrap()
    }
}

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
    let mut whole = Image::with_tasks(20);
    for nth in 0..20 {
        whole.coroutine(nth, AWAITING, coroutine(nth + 20));
        whole.set(task(nth) + AWAITED_BY, task((nth + 1) % 20));
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = || random.u64(..);
    for _ in 0..500 {
        let mut image = whole.clone();
        for _ in 0..20 {
            let place = match next() % 3 {
                0 => TASKS + next() % 0x1400,
                1 => COROUTINES + next() % 0x2800,
                _ => NAMES + next() % 0x500,
            };
            let word = match next() % 3 {
                0 => next(),
                1 => task(next() % 20) + NODE,
                _ => START + next() % (END - START) / 8 * 8,
            };
            image.set(place / 8 * 8, word);
        }
        let tasks = image.tasks();
        assert!(tasks.found.len() <= 20 + 256);
    }
}
