//! Reads the tasks of all threads of a process, one after another.
//!
//! Invariants: a task is read until nothing of it has changed from before until after, within [`ATTEMPTS`]; one that ends
//! meanwhile is left out and counted.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use agent_common::memory::{UserAddr, UserMemory};

use super::{
    super::structure::{Structure, behind},
    awaiters::Awaiters,
    error::TasksError,
    layout::TaskLayout,
    list::{Keep, Listed, Lists},
    objects::Objects,
    stack::{Activity, Stack},
    task::{Task, TaskState, Tasks},
    types::Types,
};
use crate::python::{
    asyncio::AsyncioOffsets,
    coroutines::CoroutineFacts,
    remote::{Target, code::CodeObjects, list::ThreadStates, read_list},
};

/// Most tasks of a process.
const MAX_TASKS: usize = 10_000;

/// Attempts to read a task, which may run on while it is read.
const ATTEMPTS: u32 = 5;

/// A state of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    pub(super) state: UserAddr,
    /// Its id in the process's PID namespace.
    native_id: Option<u32>,
}

/// Reads tasks.
pub(super) struct Reader<'a, M> {
    pub(super) objects: Objects<'a, M>,
    code: CodeObjects,
    threads: Vec<Thread>,
    awaiters: Awaiters,
}

/// One attempt to read a task.
enum Attempt {
    /// All of it is of one moment.
    Proved(Task),
    /// Its functions changed.
    Torn(Task),
    /// More than these changed.
    Changed,
    /// It has ended.
    Ended,
}

impl<'a, M: UserMemory> Reader<'a, M> {
    /// One for a process, and the states of its threads.
    ///
    /// # Errors
    ///
    /// When the offsets of the interpreter or the list of its threads cannot be read.
    pub(super) fn open(
        memory: &'a M,
        target: &Target,
        offsets: AsyncioOffsets,
        facts: &CoroutineFacts,
    ) -> Result<(Self, Vec<ThreadStates>), TasksError> {
        let layout = TaskLayout::read(memory, target, offsets, facts).ok_or(TasksError::Offsets)?;
        let states = read_list(memory, target).map_err(|_| TasksError::Threads)?;
        let reader = Self {
            objects: Objects {
                memory,
                layout,
                types: Types::default(),
                scratch: Box::default(),
            },
            code: CodeObjects::default(),
            threads: Vec::new(),
            awaiters: Awaiters::default(),
        };
        Ok((reader, states))
    }

    /// The tasks of these threads, the main thread's first; those that are not read by `deadline` are left out.
    ///
    /// # Errors
    ///
    /// When asyncio was not imported.
    pub(super) fn read(
        mut self,
        states: &[ThreadStates],
        deadline: Instant,
    ) -> Result<Tasks, TasksError> {
        let lists = Lists::new(Keep::First, MAX_TASKS, deadline);
        let lists = self.fill(lists, states, |_| ());
        let is_empty = lists.count() == 0 && lists.inconsistent == 0 && !lists.is_cut;
        if is_empty && self.lacks_asyncio(states) {
            return Err(TasksError::NotLoaded);
        }
        let mut read = Tasks {
            changed: lists.inconsistent,
            more: lists.more,
            is_cut: lists.is_cut,
            ..Tasks::default()
        };
        let loops = self.loops();
        for listed in lists.tasks {
            if Instant::now() >= deadline {
                read.is_cut = true;
                break;
            }
            match self.task(listed, &loops) {
                Some(task) => read.found.push(task),
                None => read.changed += 1,
            }
        }
        read.is_cut |= self.awaiters.is_cut();
        Ok(read)
    }

    /// Whether no interpreter of these threads has imported asyncio, for which all of their modules are read.
    fn lacks_asyncio(&mut self, states: &[ThreadStates]) -> bool {
        let states = states.iter().flat_map(|(_, states)| states);
        let interpreters: HashSet<_> = states.map(|state| state.interpreter).collect();
        let mut interpreters = interpreters.into_iter();
        interpreters.all(|it| self.objects.lacks_asyncio(it))
    }

    /// The same lists with the tasks of these threads and of those that have ended, which are not read. `refresh` has the
    /// memory at some addresses read again.
    pub(super) fn fill(
        &mut self,
        mut lists: Lists,
        states: &[ThreadStates],
        refresh: impl Fn(&[UserAddr]),
    ) -> Lists {
        let asyncio = self.objects.layout.asyncio;
        let mut interpreters = Vec::new();
        let states = states.iter().rev().flat_map(|(_, states)| states);
        for state in states {
            let id = self.objects.layout.native_thread_id;
            let native_id = self.objects.memory.word(behind(state.address, id));
            let native_id = native_id.ok().and_then(|id| u32::try_from(id).ok());
            let thread = Some(self.threads.len());
            self.threads.push(Thread {
                state: state.address,
                native_id: native_id.filter(|id| *id != 0),
            });
            let head = behind(state.address, asyncio.thread_tasks);
            lists.follow(&mut self.objects, head, thread, &refresh);
            if !interpreters.contains(&state.interpreter) {
                interpreters.push(state.interpreter);
            }
        }
        for interpreter in interpreters {
            let head = behind(interpreter, asyncio.interpreter_tasks);
            lists.follow(&mut self.objects, head, None, &refresh);
        }
        lists
    }

    /// The threads by the loops that they run.
    pub(super) fn loops(&self) -> HashMap<u64, Thread> {
        let offset = self.objects.layout.asyncio.running_loop;
        let threads = self.threads.iter().rev().filter_map(|thread| {
            let memory = self.objects.memory;
            let running = memory.word_or_zero(behind(thread.state, offset));
            (running != 0).then_some((running, *thread))
        });
        threads.collect()
    }

    /// The thread whose loop runs a task, else the one that has created it.
    pub(super) fn thread_of(
        &self,
        listed: Listed,
        task: &Structure,
        loops: &HashMap<u64, Thread>,
    ) -> Option<Thread> {
        // `fut_loop` is the first field.
        let event_loop = task.word(u64::from(self.objects.layout.python.object.class) + 8);
        let thread = loops.get(&event_loop).copied();
        thread.or_else(|| self.creator(listed))
    }

    /// The thread that has created a task; [`None`] where it has ended.
    pub(super) fn creator(&self, listed: Listed) -> Option<Thread> {
        listed.thread.and_then(|nth| self.threads.get(nth).copied())
    }

    /// A task; [`None`] where it has ended or changes all the time.
    fn task(&mut self, listed: Listed, loops: &HashMap<u64, Thread>) -> Option<Task> {
        let mut torn = None;
        for _ in 0..ATTEMPTS {
            match self.attempt(listed, loops) {
                Attempt::Proved(task) => return Some(task),
                Attempt::Torn(task) => torn = Some(task),
                Attempt::Changed => {}
                Attempt::Ended => return None,
            }
        }
        torn
    }

    fn attempt(&mut self, listed: Listed, loops: &HashMap<u64, Thread>) -> Attempt {
        let asyncio = self.objects.layout.asyncio;
        let Some(before) = self.listed(listed) else {
            return Attempt::Ended;
        };
        let coroutine = UserAddr(before.word(asyncio.coroutine));
        let thread = self.thread_of(listed, &before, loops);
        let Some(name) = self.objects.name(&before) else {
            return Attempt::Changed;
        };
        let awaited_by = self.awaiters.of(&mut self.objects, &before);
        let first = self.stack(thread, listed.address, coroutine);
        let frames = first
            .as_ref()
            .map(|stack| self.objects.frames(&mut self.code, stack));
        let second = self.stack(thread, listed.address, coroutine);
        let Some(after) = self.listed(listed) else {
            return Attempt::Ended;
        };
        let same = [asyncio.name, asyncio.coroutine, asyncio.awaited_by];
        if same.iter().any(|at| before.word(*at) != after.word(*at)) {
            return Attempt::Changed;
        }
        let mut task = Task {
            address: listed.address.0,
            name,
            thread: thread.and_then(|thread| thread.native_id),
            state: None,
            frames: None,
            is_cut: false,
            awaited_by,
        };
        match (first, second) {
            (Some(first), Some(second)) if first == second => {
                task.is_cut = first.is_cut;
                task.frames = frames;
                task.state = match first.activity {
                    Activity::Ended => return Attempt::Ended,
                    Activity::Created => Some(TaskState::Created),
                    Activity::Executing => Some(TaskState::Running),
                    Activity::Suspended | Activity::Opaque => Some(TaskState::Waiting),
                };
                Attempt::Proved(task)
            }
            _ => Attempt::Torn(task),
        }
    }

    /// The task, if it still is in a list.
    pub(super) fn listed(&mut self, listed: Listed) -> Option<Structure> {
        let layout = self.objects.layout;
        let next = layout.asyncio.node + layout.node_next;
        let task = self.objects.task(listed.address)?;
        (task.word(next) != 0).then_some(task)
    }

    /// The functions of a task; [`None`] where they cannot be read, or it was resumed meanwhile.
    pub(super) fn stack(
        &mut self,
        thread: Option<Thread>,
        task: UserAddr,
        coroutine: UserAddr,
    ) -> Option<Stack> {
        let stack = self.objects.coroutines(coroutine).ok()?;
        let running = self.objects.layout.asyncio.running_task;
        if stack.activity == Activity::Opaque {
            let is_running = thread.is_some_and(|thread| self.is_at(thread, running, task));
            return Some(Stack {
                activity: if is_running {
                    Activity::Executing
                } else {
                    Activity::Opaque
                },
                ..stack
            });
        }
        if stack.activity != Activity::Executing {
            return Some(stack);
        }
        let mut threads = thread.into_iter().chain(self.threads.iter().copied());
        let at_it = threads.find(|thread| self.is_at(*thread, running, task));
        // One that starts another one, which runs at once, does not run itself by the thread's word.
        self.objects
            .running(at_it.or(thread)?.state, coroutine)
            .ok()?
    }

    fn is_at(&self, thread: Thread, offset: u64, address: UserAddr) -> bool {
        self.objects.memory.word(behind(thread.state, offset)) == Ok(address.0)
    }
}
