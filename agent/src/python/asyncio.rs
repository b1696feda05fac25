//! The section `.AsyncioDebug`: where asyncio has its tasks, which CPython publishes from 3.14 on.
//!
//! It is in the extension `_asyncio`, or in the interpreter's own file where the extension is linked into that. It is
//! initialised statically and therefore read from the file:
//!
//! | word | structure | |
//! |---|---|---|
//! | 0-6 | a task | size, `task_name`, `task_awaited_by`, `task_is_task`, `task_awaited_by_is_set`, `task_coro`, `task_node` |
//! | 7-8 | the state of an interpreter | size, `asyncio_tasks_head` |
//! | 9-12 | the state of a thread | size, `asyncio_running_loop`, `asyncio_running_task`, `asyncio_tasks_head` |
//!
//! Invariant: every value is checked.

use agent_common::layout::RunningTaskLayout;

use crate::binaries::elf::{Elf, Error, Source};

/// Its name.
const SECTION: &str = ".AsyncioDebug";

/// Its size in words.
const WORDS: usize = 13;

/// Largest plausible task; that of 3.14t has 192 bytes.
pub const MAX_TASK_BYTES: u64 = 1024;

/// Largest plausible state of a thread or an interpreter; the largest so far has 250 KB.
const MAX_STATE_BYTES: u64 = 1 << 20;

/// Offsets in asyncio's structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncioOffsets {
    /// The size of a task, at most [`MAX_TASK_BYTES`].
    pub task_bytes: u64,
    /// `task_name`: a string, or a number for `Task-N`.
    pub name: u64,
    /// `task_awaited_by`: null, a future, or a set of them.
    pub awaited_by: u64,
    /// `task_is_task`: one byte; futures that are no tasks have it too.
    pub is_task: u64,
    /// `task_awaited_by_is_set`: one byte.
    pub awaited_by_is_set: u64,
    /// `task_coro`.
    pub coroutine: u64,
    /// `task_node`: in the list of the tasks of a thread.
    pub node: u64,
    /// `asyncio_tasks_head` of an interpreter: the tasks of threads that have ended.
    pub interpreter_tasks: u64,
    /// `asyncio_running_loop` of a thread: null while no loop runs on it.
    pub running_loop: u64,
    /// `asyncio_running_task` of a thread.
    pub running_task: u64,
    /// `asyncio_tasks_head` of a thread.
    pub thread_tasks: u64,
}

impl AsyncioOffsets {
    /// Where a task has the future that it awaits, `task_fut_waiter`: before its coroutine, which no section says;
    /// [`None`] where there is no room for it.
    pub(super) fn awaited_future(&self) -> Option<u64> {
        let before = self.coroutine.checked_sub(8)?;
        (before > self.is_task.max(self.awaited_by_is_set)).then_some(before)
    }

    /// Where a future has its state, `fut_state`: four bytes between two fields that the section names; [`None`] where they
    /// are not so far apart.
    pub(super) fn future_state(&self) -> Option<u64> {
        let state = self.awaited_by.checked_add(8)?;
        (self.is_task == state.checked_add(4)?).then_some(state)
    }

    /// Takes them out of the section's words; [`None`] where one is implausible.
    #[must_use]
    pub fn new(words: &[u64; WORDS]) -> Option<Self> {
        let [task, name, awaited_by, is_task, is_set, coroutine, node, ..] = *words;
        let [
            ..,
            interpreter,
            in_interpreter,
            thread,
            running_loop,
            running_task,
            in_thread,
        ] = *words;
        let fits = |offset: u64, bytes: u64, size: u64| {
            offset.checked_add(bytes).is_some_and(|end| end <= size)
        };
        let is_word = |offset: u64, size| offset.is_multiple_of(8) && fits(offset, 8, size);
        let is_node = |offset: u64, size| offset.is_multiple_of(8) && fits(offset, 16, size);
        let is_plausible = task <= MAX_TASK_BYTES
            && interpreter <= MAX_STATE_BYTES
            && thread <= MAX_STATE_BYTES
            && [name, awaited_by, coroutine]
                .iter()
                .all(|it| is_word(*it, task))
            && [is_task, is_set].iter().all(|it| fits(*it, 1, task))
            && is_node(node, task)
            && is_node(in_interpreter, interpreter)
            && is_word(running_loop, thread)
            && is_word(running_task, thread)
            && is_node(in_thread, thread);
        is_plausible.then_some(Self {
            task_bytes: task,
            name,
            awaited_by,
            is_task,
            awaited_by_is_set: is_set,
            coroutine,
            node,
            interpreter_tasks: in_interpreter,
            running_loop,
            running_task,
            thread_tasks: in_thread,
        })
    }

    /// Those that the BPF programs need; all 0 where they are larger than a thread's state ever was.
    #[must_use]
    pub fn running_task(&self) -> RunningTaskLayout {
        let narrow = |offset: u64| u16::try_from(offset).ok();
        let layout = || {
            Some(RunningTaskLayout {
                running: narrow(self.running_task)?,
                name: narrow(self.name)?,
                coroutine: narrow(self.coroutine)?,
                reserved: 0,
            })
        };
        layout().unwrap_or(RunningTaskLayout::UNKNOWN)
    }

    /// Those in a file; [`None`] where it has none.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn in_file<S: Source>(elf: &Elf<S>) -> Result<Option<Self>, Error> {
        let Some(section) = elf.section(SECTION) else {
            return Ok(None);
        };
        let mut bytes = [0; WORDS * 8];
        if section.bytes < bytes.len() as u64 || !elf.initial_bytes(section.address, &mut bytes)? {
            return Ok(None);
        }
        let mut words = [0; WORDS];
        let (chunks, _) = bytes.as_chunks();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        Ok(Self::new(&words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of 3.14.10.
    const WORDS_3_14: [u64; WORDS] = [
        168, 136, 96, 108, 109, 128, 152, 225_864, 10_880, 936, 864, 872, 880,
    ];

    #[test]
    fn offsets_are_those_of_the_section() {
        let offsets = AsyncioOffsets::new(&WORDS_3_14).unwrap();
        assert_eq!(offsets.coroutine, 128);
        assert_eq!(offsets.node, 152);
        assert_eq!(offsets.interpreter_tasks, 10_880);
        assert_eq!(offsets.running_task, 872);
        assert_eq!(offsets.thread_tasks, 880);
        let running = RunningTaskLayout {
            running: 872,
            name: 136,
            coroutine: 128,
            reserved: 0,
        };
        assert_eq!(offsets.running_task(), running);
    }

    #[test]
    fn implausible_values_are_rejected() {
        for word in 0..WORDS {
            for value in [u64::MAX, u64::MAX - 7, 1 << 21] {
                let mut words = WORDS_3_14;
                words[word] = value;
                assert_eq!(AsyncioOffsets::new(&words), None, "{word}: {value}");
            }
        }
        assert_eq!(AsyncioOffsets::new(&[0; WORDS]), None);
    }
}
