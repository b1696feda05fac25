//! The threads of a core dump: their stacks, what they waited for, and who held that.
//!
//! They stood still while it was written, so that nothing has to be proved. They are read by the same code as those of
//! a process.
//!
//! Invariant: what cannot be read is left out, and says so; a damaged dump gives less, and never a loop.

use std::collections::HashMap;

use agent_common::{
    memory::{UserAddr, UserMemory},
    native::Registers,
    python::collects_garbage,
    record::WaitReason,
    scratch::Scratch,
};

use super::{
    deadlocks::{DeadlockedThread, OwnedLock, cycles, deadlocked},
    locks::full_name,
    process::{awaited_word, system_call},
    reason::{ThreadAtRest, descriptors::FileKind, reason},
};
use crate::{
    binaries::{core_dump::CoreDump, elf::Source},
    python::{
        Interpreter,
        gil::{Gil, GilWords},
        remote::{self, Lock, LockReader, Target, ThreadListError, ThreadStack, word_of_lock},
    },
};

/// What is known of the threads of a core dump.
#[derive(Debug, Default)]
pub struct CoreThreads {
    /// Its threads, that which has received the signal first.
    pub threads: Vec<CoreThreadState>,
    /// Threads each of which waited for a lock that the next one held.
    pub deadlocks: Vec<Vec<DeadlockedThread>>,
    /// Why not all stacks of Python could be found, if so.
    pub list_error: Option<ThreadListError>,
}

/// A thread of a core dump.
#[derive(Debug)]
pub struct CoreThreadState {
    /// Its id, in the PID namespace of the process.
    pub tid: u32,
    /// Its `pthread_self()`; [`None`] where it is not known.
    pub thread_id: Option<u64>,
    /// Its stack; [`None`] where Python has no state of it.
    pub stack: Option<ThreadStack>,
    /// What it waited for; nothing if it ran.
    pub wait: WaitReason,
    /// The lock for which it waited.
    pub lock: Option<String>,
    /// Whether it held a GIL; [`None`] where that is not known, or there is none.
    pub holds_gil: Option<bool>,
    /// The thread that held the GIL for which it waited.
    pub gil_holder: Option<u32>,
    /// Whether it collected garbage.
    pub collects_garbage: bool,
}

/// Reads the threads of a core dump of a process with this interpreter.
#[must_use]
pub fn core_threads<S: Source>(core: &CoreDump<S>, interpreter: &Interpreter) -> CoreThreads {
    let target = Target::from(interpreter);
    let mut found = CoreThreads::default();
    let (stacks, list_error) = remote::read_some(core, &target);
    found.list_error = list_error;
    let mut stacks: HashMap<u64, ThreadStack> = stacks
        .into_iter()
        .map(|stack| (stack.thread_id, stack))
        .collect();
    let distance = interpreter.thread_pointer_distance;
    let threads = core.threads().iter();
    let threads = threads.map(|thread| {
        let pointer = thread.thread_pointer.filter(|pointer| *pointer != 0);
        (thread, pointer.map(|it| it.wrapping_sub(distance)))
    });
    let threads: Vec<_> = threads.collect();
    let tids = threads
        .iter()
        .filter_map(|(thread, id)| Some(((*id)?, thread.tid)));
    let mut reader = Reader {
        core,
        interpreter,
        target: &target,
        gil: interpreter.gil.words(core),
        tids: tids.collect(),
        scratch: Box::default(),
        owned: HashMap::new(),
    };
    for (thread, thread_id) in threads {
        let stack = thread_id.and_then(|id| stacks.remove(&id));
        let (registers, has_waited) = core.at_rest(thread);
        let dumped = reader.read(thread.tid, thread_id, stack, &registers, has_waited);
        found.threads.push(dumped);
    }
    found.deadlocks = reader.deadlocks();
    found
}

struct Reader<'a, S> {
    core: &'a CoreDump<S>,
    interpreter: &'a Interpreter,
    target: &'a Target,
    gil: GilWords,
    /// Threads by `pthread_self()`.
    tids: HashMap<u64, u32>,
    scratch: Box<Scratch>,
    /// Locks of which is known who held them, by the thread that waited.
    owned: HashMap<u32, OwnedLock>,
}

impl<S: Source> Reader<'_, S> {
    fn read(
        &mut self,
        tid: u32,
        thread_id: Option<u64>,
        stack: Option<ThreadStack>,
        registers: &Registers,
        has_waited: bool,
    ) -> CoreThreadState {
        let has_gil = !self.interpreter.flavour.is_free_threaded;
        let holds_gil = stack
            .as_ref()
            .and_then(|stack| stack.is_attached)
            .filter(|_| has_gil);
        let mut dumped = CoreThreadState {
            tid,
            thread_id,
            collects_garbage: stack.as_ref().is_some_and(|it| self.collects_garbage(it)),
            holds_gil,
            stack,
            wait: WaitReason::NONE,
            lock: None,
            gil_holder: None,
        };
        if !has_waited {
            return dumped;
        }
        let at_rest = ThreadAtRest {
            system_call: system_call(registers),
            uninterruptible: false,
            runnable: false,
        };
        let file = |_| FileKind::Unknown;
        dumped.wait = reason(&at_rest, file, Some(&self.gil));
        match (dumped.wait, awaited_word(registers)) {
            (WaitReason::GIL, _) if holds_gil == Some(true) => {
                // For the mutex with which it gives the GIL up.
                dumped.wait = WaitReason::OTHER;
            }
            (WaitReason::GIL, Some(word)) => {
                dumped.gil_holder = self.gil.find(word).and_then(|gil| self.holder(gil));
            }
            (WaitReason::LOCK, Some(word)) => {
                let lock = self.lock(&dumped, word, registers.stack_pointer());
                dumped.lock = Some(lock);
            }
            _ => {}
        }
        dumped
    }

    fn collects_garbage(&self, stack: &ThreadStack) -> bool {
        stack.states.first().is_some_and(|first| {
            collects_garbage(
                self.core,
                &self.target.layout,
                first.interpreter,
                self.target.interpreters_head,
                stack.is_attached == Some(true),
                |holder| stack.states.iter().any(|own| own.address == holder),
            )
        })
    }

    /// The thread that holds a GIL.
    fn holder(&self, gil: Gil) -> Option<u32> {
        let layout = &self.target.layout;
        let variable = self.target.gil_holder.unwrap_or(UserAddr(0));
        let state = gil.holder(self.core, layout, variable);
        if state.is_null() {
            return None;
        }
        let thread_id = self.core.word(state.field(layout.thread.thread_id)).ok()?;
        self.tids.get(&thread_id).copied()
    }

    /// The name of the lock for whose word a thread waited.
    fn lock(&mut self, thread: &CoreThreadState, word: u64, stack_pointer: u64) -> String {
        let word = word_of_lock(self.core, word, stack_pointer);
        let states = thread.stack.iter().flat_map(|stack| &stack.states);
        let Some(state) = states.map(|state| state.address).next() else {
            return full_name(None, &Lock::at(word));
        };
        let mut reader = LockReader::new(self.core, &mut self.scratch, &self.target.layout);
        let mut lock = reader.find(state, word);
        let (variable, _) = reader.name(&mut lock);
        let owner = reader.owner(&lock);
        let name = full_name(variable, &lock);
        if let (Some(owner), Some(thread_id)) = (owner, thread.thread_id) {
            let waiting = OwnedLock {
                process: self.core.pid(),
                switches: 0,
                thread_id,
                owner,
                name: name.clone(),
            };
            self.owned.insert(thread.tid, waiting);
        }
        name
    }

    fn deadlocks(&self) -> Vec<Vec<DeadlockedThread>> {
        let waiting = self
            .owned
            .iter()
            .map(|(tid, owned)| (*tid, owned))
            .collect();
        let mut cycles = cycles(&waiting);
        cycles.sort_unstable();
        let deadlocks = cycles.iter().map(|cycle| deadlocked(cycle, &waiting));
        deadlocks.collect()
    }
}
