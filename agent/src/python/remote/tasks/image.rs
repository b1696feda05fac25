//! Made-up memory with tasks as 3.14 has them, for tests and for fuzzing.

use std::{
    cell::{Cell, RefCell},
    iter,
};

use agent_common::memory::{Fault, UserAddr, UserMemory};

use super::{TaskLocation, Tasks, TasksError, read};
use crate::python::{
    Version,
    asyncio::AsyncioOffsets,
    coroutines::CoroutineFacts,
    remote::Target,
    versions::{VersionSeries, series_of},
};

/// Where the memory starts.
pub const START: u64 = 0x1_0000;
/// The state of the runtime, with the debug offsets.
pub const RUNTIME: u64 = START;
/// The state of the only interpreter.
pub const INTERPRETER: u64 = 0x2_0000;
/// The state of its only thread.
pub const THREAD: u64 = 0x3_0000;
/// The class of tasks.
pub const TASK_CLASS: u64 = 0x4_0000;
/// The class of coroutines.
pub const COROUTINE_CLASS: u64 = 0x4_1000;
/// The class of the numbers in names of tasks.
pub const NUMBER_CLASS: u64 = 0x4_2000;
/// Room for a set of awaiters.
pub const SET: u64 = 0x4_3000;
/// The first [`task`].
pub const TASKS: u64 = 0x5_0000;
/// The numbers in their names.
pub const NAMES: u64 = 0x6_0000;
/// The first [`coroutine`].
pub const COROUTINES: u64 = 0x8_0000;
/// Where the memory ends.
pub const END: u64 = 0x10_0000;

/// The words of the section `.AsyncioDebug` in 3.14.10.
pub(super) const SECTION: [u64; 13] = [
    168, 136, 96, 108, 109, 128, 152, 225_864, 10_880, 936, 864, 872, 880,
];
pub(super) const AWAITED_BY: u64 = 96;
pub(super) const IS_TASK: u64 = 108;
pub(super) const COROUTINE: u64 = 128;
const NAME: u64 = 136;
/// `task_node`: the links of a task in the list of its thread.
pub const NODE: u64 = 152;

/// `gi_iframe`, `gi_frame_state`, `stackpointer` and `localsplus` of 3.14.
pub(super) const FRAME: u64 = 72;
const STATE: u64 = 67;
pub(super) const STACK_POINTER: u64 = 64;
const LOCALS: u64 = 80;

/// How many tasks [`Image::tangled`] has.
pub const TANGLED: u64 = 20;

/// The state of a coroutine that awaits another one.
pub const AWAITING: u8 = u8::MAX;
/// The state of a coroutine that is suspended.
pub const SUSPENDED: u8 = u8::MAX - 1;

/// The memory of a process from [`START`] to [`END`]; all else faults.
#[derive(Clone, Debug)]
pub struct Image(Vec<u8>);

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

#[expect(
    clippy::unwrap_used,
    reason = "the memory is smaller than any address space"
)]
pub(super) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

#[expect(clippy::unwrap_used, reason = "the series is supported")]
pub(super) fn series() -> &'static VersionSeries {
    series_of(Version::of_series(3, 14)).unwrap()
}

/// What is known of its coroutines.
#[expect(clippy::unwrap_used, reason = "the series has tasks that can be read")]
pub(super) fn facts() -> &'static CoroutineFacts {
    series().coroutines.as_ref().unwrap()
}

/// The address of a task.
#[must_use]
pub fn task(nth: u64) -> u64 {
    TASKS + nth * 256
}

/// The address of the coroutine of a task.
#[must_use]
pub fn coroutine(nth: u64) -> u64 {
    COROUTINES + nth * 256
}

/// Where the process has its interpreter.
#[must_use]
pub fn target() -> Target {
    let layout = series().layout;
    let head = u64::from(layout.interpreter.runtime_head);
    Target {
        interpreters_head: UserAddr(RUNTIME + head),
        gil_holder: None,
        layout,
    }
}

/// Where its tasks are.
///
/// # Panics
///
/// Never: the offsets are plausible.
#[must_use]
#[expect(clippy::unwrap_used, reason = "the offsets are plausible")]
pub fn location() -> TaskLocation {
    TaskLocation {
        offsets: AsyncioOffsets::new(&SECTION).unwrap(),
        facts: facts(),
    }
}

impl Image {
    /// A thread without tasks.
    pub(super) fn new() -> Self {
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
    #[must_use]
    pub fn with_tasks(count: u64) -> Self {
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

    /// Gives a coroutine a state, and what it awaits.
    pub fn coroutine(&mut self, nth: u64, state: u8, awaited: u64) {
        let at = coroutine(nth);
        self.set(at + 8, COROUTINE_CLASS);
        self.bytes(at + STATE, &[state]);
        // `FRAME_OWNED_BY_GENERATOR`
        self.bytes(at + FRAME + 74, &[1]);
        self.set(at + FRAME + STACK_POINTER, at + FRAME + LOCALS + 8);
        self.set(at + FRAME + LOCALS, awaited);
    }

    /// Makes a list of these nodes, the first of which is its head.
    pub fn link(&mut self, nodes: &[u64]) {
        for (nth, node) in nodes.iter().enumerate() {
            let next = nodes[(nth + 1) % nodes.len()];
            self.set(*node, next);
            self.set(next + 8, *node);
        }
    }

    /// Writes a word.
    ///
    /// # Panics
    ///
    /// Where there is no memory.
    pub fn set(&mut self, address: u64, word: u64) {
        self.bytes(address, &word.to_le_bytes());
    }

    /// Writes bytes, as [`Image::set`] does.
    pub fn bytes(&mut self, address: u64, bytes: &[u8]) {
        let start = size(address - START);
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Tasks each of which awaits the coroutine of another one, and is awaited by a third one.
    #[must_use]
    pub fn tangled() -> Self {
        let mut image = Self::with_tasks(TANGLED);
        for nth in 0..TANGLED {
            image.coroutine(nth, AWAITING, coroutine(nth + TANGLED));
            image.coroutine(nth + TANGLED, SUSPENDED, 0);
            image.set(task(nth) + AWAITED_BY, task((nth + 1) % TANGLED));
        }
        image
    }

    /// Overwrites a word of what tasks are read from: what `next` returns decides which one, and by what.
    pub fn damage(&mut self, mut next: impl FnMut() -> u64) {
        const PLACES: [(u64, u64); 6] = [
            (TASKS, 0x1400),
            (COROUTINES, 0x2800),
            (NAMES, 0x500),
            (THREAD, 0x400),
            (INTERPRETER, 0x2c00),
            (RUNTIME, 0x400),
        ];
        let (start, bytes) = PLACES[size(next() % PLACES.len() as u64)];
        let place = start + next() % bytes / 8 * 8;
        let word = match next() % 4 {
            0 => next(),
            1 => !next(),
            2 => task(next() % TANGLED) + NODE,
            _ => START + next() % ((END - START) / 8) * 8,
        };
        self.set(place, word);
    }

    /// Its tasks.
    ///
    /// # Errors
    ///
    /// As for [`read`].
    pub fn read(&self) -> Result<Tasks, TasksError> {
        let TaskLocation { offsets, facts } = location();
        read(self, &target(), offsets, facts)
    }
}

/// Memory that is damaged each time so many copies of it were made, as a process changes it that is read.
pub struct Damaged<N> {
    image: RefCell<Image>,
    every: u64,
    copies: Cell<u64>,
    next: RefCell<N>,
}

impl<N: FnMut() -> u64> Damaged<N> {
    /// Such memory; `next` has what [`Image::damage`] needs.
    pub fn new(image: Image, every: u64, next: N) -> Self {
        Self {
            image: RefCell::new(image),
            every: every.max(1),
            copies: Cell::new(0),
            next: RefCell::new(next),
        }
    }
}

impl<N: FnMut() -> u64> UserMemory for Damaged<N> {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        self.copies.set(self.copies.get() + 1);
        if self.copies.get().is_multiple_of(self.every) {
            self.image.borrow_mut().damage(&mut *self.next.borrow_mut());
        }
        // SAFETY: as the caller guarantees.
        unsafe { self.image.borrow().copy(address, into, bytes) }
    }
}
