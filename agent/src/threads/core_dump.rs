//! The threads of a core dump: their stacks, what they waited for, and who held that.
//!
//! They stood still while it was written, so that nothing has to be proved. They are read by the same code as those of
//! a process.
//!
//! Invariant: what cannot be read is left out, and says so; a damaged dump gives less, and never a loop.

mod code;

use std::collections::HashMap;

use agent_common::{
    maps::{Mapping, ThreadState},
    memory::{UserAddr, UserMemory},
    native::Registers,
    record::{NativeUnwindStatus, PythonUnwindStatus, WaitReason},
};

use self::code::CoreCode;
use super::{
    batch::Batch,
    deadlocks::{DeadlockedThread, Entered, HeldLocks, LockWaiter},
    locks::{NamedLock, full_name},
    names::{self, NamedThread},
    process::{awaited_word, entered_but, system_call},
    reason::{ThreadAtRest, descriptors::FileKind, reason},
    snapshot::{ProvedStack, SnapshotThread},
    symbols::KnownCode,
    walker::{self, Walker},
};
use crate::{
    binaries::{
        core_dump::{CoreDump, CoreThread},
        elf::Source,
        executables::Executables,
    },
    bpf::Records,
    python::{
        Interpreter,
        gil::{Gil, GilWords},
        remote::{
            Lock, LockReader, LockWord, StopWait, Target, ThreadListError, find_request, requester,
            thread_states_until_error, word_of_lock,
        },
    },
};

/// Most bytes of code objects that are read of a dump.
const MAX_CODE_BYTES: u32 = 256 << 20;

/// Bytes at the end of a stack that are never all zero.
const STACK_END_BYTES: usize = 256;

/// Hashes identify stacks and code objects within one core dump only.
const SEED: u64 = 0;

/// What is known of the threads of a core dump.
#[derive(Debug, Default)]
pub struct CoreThreads {
    /// Its threads, that which has received the signal first, each with its stack.
    pub threads: Vec<SnapshotThread>,
    /// Threads each of which waited for a lock that the next one held.
    pub deadlocks: Vec<Vec<DeadlockedThread>>,
    /// Why not all stacks of Python could be found, if so.
    pub list_error: Option<ThreadListError>,
    /// `pthread_self()` and thread states of threads of Python, by their ids.
    pub states: HashMap<u32, (u64, Vec<ThreadState>)>,
}

/// Reads the threads of a core dump of a process with this interpreter, if it had one; with native frames where its
/// executables are given, and the mappings of them. Also returns what their samples refer to: stacks, code objects, names
/// of threads and of locks.
#[must_use]
pub fn core_threads<S: Source>(
    core: &CoreDump<S>,
    interpreter: Option<&Interpreter>,
    native: Option<(&Executables, &[Mapping])>,
) -> (CoreThreads, Records) {
    let python = interpreter.map(Python::from);
    let (list, list_error) = python.as_ref().map_or_else(Default::default, |python| {
        thread_states_until_error(core, &python.target)
    });
    let is_listed = list_error.is_none();
    let mut states: HashMap<u64, Vec<ThreadState>> = list.into_iter().collect();
    let without_code = Executables::default();
    let (executables, mappings) = native.unwrap_or((&without_code, &[]));
    let threads = core.threads().iter();
    let tids = threads.filter_map(|thread| Some((thread_id(thread, interpreter)?, thread.tid)));
    let mut reader = Reader {
        core,
        python,
        gil: interpreter.map(|interpreter| interpreter.gil.words(core)),
        tids: tids.collect(),
        walker: Walker::new(SEED, native.is_some()),
        code: CoreCode::new(executables, mappings),
        symbols: KnownCode::of_at_most(MAX_CODE_BYTES),
        batch: Batch::default(),
        waiters: HashMap::new(),
        entered: HashMap::new(),
    };
    let mut found = CoreThreads {
        list_error,
        ..CoreThreads::default()
    };
    for thread in core.threads() {
        let thread_id = thread_id(thread, interpreter);
        let own = thread_id.and_then(|id| states.remove(&id));
        let is_known = own.is_some() || interpreter.is_none() || thread_id.is_some() && is_listed;
        let mut read = reader.read(thread, thread_id, own.as_deref().unwrap_or_default());
        if !is_known {
            // It may be a thread of Python.
            read.sample.python_status = PythonUnwindStatus::THREAD_FAULT;
        }
        found.threads.push(SnapshotThread {
            tgid: core.pid(),
            tid: thread.tid,
            seen: read.sample.wait,
            stack: Some(read),
        });
        if let Some(own) = thread_id.zip(own) {
            found.states.insert(thread.tid, own);
        }
    }
    let (deadlocks, holders) = reader.deadlocks();
    found.deadlocks = deadlocks;
    for thread in &mut found.threads {
        if let Some(stack) = &mut thread.stack {
            stack.lock_holder = holders.get(&thread.tid).copied();
        }
    }
    (found, reader.batch.references)
}

/// The `pthread_self()` of a thread, where it is known.
fn thread_id(thread: &CoreThread, interpreter: Option<&Interpreter>) -> Option<u64> {
    let pointer = thread.thread_pointer.filter(|pointer| *pointer != 0)?;
    let distance = interpreter.map_or(0, |it| it.thread_pointer_distance);
    Some(pointer.wrapping_sub(distance))
}

/// The interpreter, for those who read it.
struct Python {
    target: Target,
    walked: walker::Interpreter,
    has_gil: bool,
}

impl From<&Interpreter> for Python {
    fn from(interpreter: &Interpreter) -> Self {
        let target = Target::from(interpreter);
        Self {
            walked: walker::Interpreter {
                head: target.interpreters_head,
                gil_holder: target.gil_holder.unwrap_or(UserAddr(0)),
                layout: target.layout,
                tasks: interpreter.running_task(),
            },
            target,
            has_gil: !interpreter.flavour.is_free_threaded,
        }
    }
}

struct Reader<'a, S> {
    core: &'a CoreDump<S>,
    python: Option<Python>,
    gil: Option<GilWords>,
    /// Threads by `pthread_self()`.
    tids: HashMap<u64, u32>,
    walker: Walker,
    code: CoreCode<'a>,
    symbols: KnownCode,
    batch: Batch,
    /// Threads that waited for locks, and which they had entered.
    waiters: HashMap<u32, LockWaiter>,
    entered: HashMap<u32, Entered>,
}

impl<S: Source> Reader<'_, S> {
    /// The stack of a thread with these states, and what it waited for.
    fn read(
        &mut self,
        thread: &CoreThread,
        thread_id: Option<u64>,
        states: &[ThreadState],
    ) -> ProvedStack {
        let tid = thread.tid;
        let (registers, has_waited) = self.core.at_rest(thread);
        let source = walker::Source {
            memory: self.core,
            interpreter: self.python.as_ref().map(|python| &python.walked),
            states,
            thread_id: thread_id.unwrap_or(0),
            registers: &self.in_code(&registers),
            kernel: &[],
        };
        let (walker, code) = (&mut self.walker, &mut self.code);
        let (mut stack, records) = walker.walk(&source, code, &mut self.symbols, &mut self.batch);
        if stack.native_status == NativeUnwindStatus::COMPLETE
            && self.is_blank(registers.stack_pointer())
        {
            // As gcore writes some: the return address 0 is not that of the first function.
            stack.native_status = NativeUnwindStatus::FAULT;
        }
        records.send(&stack, &mut self.batch);
        let name = self.name(tid, &stack);
        self.batch.add_reference(&name);
        self.note_entered(tid, states, &registers);
        let mut sample = stack.sample(self.core.pid(), tid, WaitReason::NONE);
        let (mut lock, mut gil_holder) = (0, None);
        if has_waited {
            let at_rest = ThreadAtRest {
                system_call: system_call(&registers),
                uninterruptible: false,
                runnable: false,
            };
            let file = |_| FileKind::Unknown;
            sample.wait = reason(&at_rest, file, self.gil.as_ref());
        }
        match (sample.wait, awaited_word(&registers)) {
            (WaitReason::GIL, _) if stack.holds_gil => {
                // For the mutex with which it gives the GIL up.
                sample.wait = WaitReason::OTHER;
            }
            (WaitReason::GIL, Some(word)) => {
                let gil = self.gil.as_ref().and_then(|gil| gil.find(word));
                gil_holder = gil.and_then(|gil| self.holder(gil));
            }
            (WaitReason::LOCK, Some(word)) => {
                if let Some(stop) = self.stop(states, word, &registers) {
                    sample.wait = WaitReason::STOP_THE_WORLD;
                    let holder = self.stopper(stop);
                    return ProvedStack::of_core(sample, 0, holder);
                }
                let name = self.lock(tid, thread_id, states, word, registers.stack_pointer());
                let named = NamedLock::new(SEED, self.core.pid(), &name);
                self.batch.add_reference(&named.record);
                lock = named.hash;
            }
            _ => {}
        }
        ProvedStack::of_core(sample, lock, gil_holder)
    }

    /// Whether a stack is there, and nothing is on it.
    fn is_blank(&self, stack_pointer: u64) -> bool {
        let mut end = [0; STACK_END_BYTES];
        let read = self.core.read_memory(stack_pointer, &mut end);
        read.is_ok() && end.iter().all(|byte| *byte == 0)
    }

    /// The registers with which a stack begins: those of the caller where what it has called is no code.
    fn in_code(&self, registers: &Registers) -> Registers {
        if self.code.has(registers.instruction()) {
            return *registers;
        }
        let at_stack_pointer = self.core.word(UserAddr(registers.stack_pointer()));
        let caller = registers.of_caller(at_stack_pointer.unwrap_or(0));
        if self.code.has(caller.instruction()) {
            caller
        } else {
            *registers
        }
    }

    /// The record of the name of a thread with this stack. The kernel's names are not in the dump but for that of the
    /// process.
    fn name(&mut self, tid: u32, stack: &walker::Walked) -> Vec<u8> {
        let mut thread = NamedThread {
            tgid: self.core.pid(),
            tid,
            comm: [0; 16],
        };
        if tid == thread.tgid {
            let name = self.core.name().bytes();
            for (to, from) in thread.comm.iter_mut().zip(name) {
                *to = from;
            }
        }
        let layout = self.python.as_ref().map(|python| &python.walked.layout);
        names::record(&thread, stack, self.core, layout, self.walker.scratch())
    }

    /// The thread that holds a GIL.
    fn holder(&self, gil: Gil) -> Option<u32> {
        let python = self.python.as_ref().filter(|python| python.has_gil)?;
        let layout = &python.walked.layout;
        let state = gil.holder(self.core, layout, python.walked.gil_holder);
        if state.is_null() {
            return None;
        }
        let thread_id = self.core.word(state.field(layout.thread.thread_id)).ok()?;
        self.tids.get(&thread_id).copied()
    }

    /// What a thread waited for that waited for this word, if that was because the threads of its interpreter were stopped
    /// or were to be.
    fn stop(&self, states: &[ThreadState], word: u64, registers: &Registers) -> Option<StopWait> {
        let layout = &self.python.as_ref()?.target.layout;
        let word = self.word_of_lock(states, word, registers.stack_pointer());
        StopWait::of(self.core, layout, states, word.address())
    }

    /// The thread that had stopped another one.
    fn stopper(&self, stop: StopWait) -> Option<u32> {
        let layout = &self.python.as_ref()?.target.layout;
        let interpreter = stop.state.interpreter;
        let find = || find_request(self.core, layout, interpreter);
        let request = stop.request.or_else(find)?;
        let requester = requester(self.core, layout, request, interpreter)?;
        let thread_id = stop.stopper(self.core, layout, requester)?;
        self.tids.get(&thread_id).copied()
    }

    /// The word of the lock for which a thread with these states waited.
    fn word_of_lock(&self, states: &[ThreadState], word: u64, stack_pointer: u64) -> LockWord {
        let python = self.python.as_ref().filter(|_| !states.is_empty());
        let layout = python.map(|python| &python.target.layout);
        word_of_lock(self.core, layout, word, stack_pointer)
    }

    /// Notes the locks that a thread with these states had entered.
    fn note_entered(&mut self, tid: u32, states: &[ThreadState], registers: &Registers) {
        let awaited = awaited_word(registers)
            .map(|word| self.word_of_lock(states, word, registers.stack_pointer()));
        let Some((python, state)) = self.python.as_ref().zip(states.first()) else {
            return;
        };
        let scratch = self.walker.scratch();
        let mut reader = LockReader::new(self.core, scratch, &python.target.layout);
        let locks = entered_but(reader.entered(state.address), awaited);
        if !locks.is_empty() {
            let entered = Entered {
                process: self.core.pid(),
                switches: 0,
                locks,
            };
            self.entered.insert(tid, entered);
        }
    }

    /// The name of the lock for whose word a thread waited.
    fn lock(
        &mut self,
        tid: u32,
        thread_id: Option<u64>,
        states: &[ThreadState],
        word: u64,
        stack_pointer: u64,
    ) -> String {
        let word = self.word_of_lock(states, word, stack_pointer);
        let state = states.first().map(|state| state.address);
        let Some((python, state)) = self.python.as_ref().zip(state) else {
            return full_name(None, &Lock::of_word(word));
        };
        let scratch = self.walker.scratch();
        let mut reader = LockReader::new(self.core, scratch, &python.target.layout);
        let mut lock = reader.find(state, word);
        let (variable, _) = reader.name(&mut lock);
        let name = full_name(variable, &lock);
        if thread_id.is_some() {
            let waiter = LockWaiter {
                process: self.core.pid(),
                switches: 0,
                lock: lock.address,
                owner: reader.owner(&lock),
                owned: None,
                name: name.clone(),
            };
            self.waiters.insert(tid, waiter);
        }
        name
    }

    /// The deadlocks, and who held the lock for which a thread waited, by the thread that waited.
    fn deadlocks(&self) -> (Vec<Vec<DeadlockedThread>>, HashMap<u32, u32>) {
        let process = self.core.pid();
        let ids = self.tids.iter();
        let ids = ids.map(|(thread_id, tid)| ((process, *thread_id), *tid));
        let ids = ids.collect();
        let waiting = self
            .waiters
            .iter()
            .map(|(tid, waiter)| (*tid, waiter))
            .collect();
        let entered = self.entered.iter().map(|(tid, it)| (*tid, it));
        let locks = HeldLocks::new(waiting, entered, ids);
        let mut cycles = locks.cycles();
        cycles.sort_unstable();
        let deadlocks = cycles.iter().map(|cycle| locks.deadlocked(cycle));
        (deadlocks.collect(), locks.holders())
    }
}
