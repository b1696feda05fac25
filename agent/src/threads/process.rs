//! A process whose threads are visited: its memory, its interpreter, its code.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant},
};

use agent_common::{
    layout::Layout,
    maps::{ThreadState, TrackedProcess},
    memory::{UserAddr, UserMemory as _},
    native::Registers,
    record::WaitReason,
    scratch::Scratch,
};

use super::{
    code::ProcessCode,
    gil::HolderPointer,
    locks::{FoundLock, KnownLocks, LockNaming},
    page_cache::PageCache,
    process_locations::{ProcessLocation, ProcessLocations},
    reason::{
        Abi, SystemCall, ThreadAtRest,
        descriptors::{FileKind, FileKinds},
        futex_word, reason,
    },
    sources::Lookups,
    symbols::KnownCode,
    thread_states::{StateOwner, StatesKnown, ThreadStates},
    walker::Interpreter,
};
use crate::{
    process::Process,
    python::{
        gil::{Gil, GilWords, MAX_GILS},
        remote::{
            EnteredLock, Lock, LockReader, LockWord, StopWait, Target, find_request, requester,
            tasks::{SampledTasks, Sampler},
            thread_states, word_of_lock,
        },
    },
};

/// Time after which it is looked a second time for who has stopped the threads of an interpreter. It doubles with each
/// search, since the first ones may have come just when the others went on.
const SEARCH_AGAIN: Duration = Duration::from_millis(10);

/// The longest of these times.
const MAX_SEARCH_AGAIN: Duration = Duration::from_secs(1);

/// What a thread of a free-threaded interpreter waits for that is stopped, or stops the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    wait: StopWait,
    /// The thread state of the thread that has requested it, where that is known.
    requester: Option<UserAddr>,
}

/// A process whose threads are visited.
pub(super) struct VisitedProcess {
    pub(super) memory: PageCache,
    pub(super) code: ProcessCode,
    pub(super) symbols: KnownCode,
    pub(super) interpreter: Option<Interpreter>,
    /// The kinds of its files, during a pass.
    files: Option<FileKinds>,
    /// The words of its GIL, during a pass.
    gil: Option<GilWords>,
    location: ProcessLocation,
    pub(super) locks: KnownLocks,
    /// Where free-threaded interpreters note that their threads are to be stopped, by interpreter.
    requests: HashMap<u64, UserAddr>,
    /// When it is to be searched for one next, and how long after that once more; [`None`] where it never was.
    next_search: Option<(Instant, Duration)>,
    /// What the maps said of it.
    tracked: TrackedProcess,
    states: ThreadStates,
    /// The pages from which the lists of its tasks were read the last time, and their stacks.
    list_pages: Vec<u64>,
    stack_pages: Vec<u64>,
    /// How many times in a row not all of its tasks were found.
    pub(super) cut_tasks: u32,
    /// The last pass that visited a thread of it.
    pub(super) pass: u64,
}

impl VisitedProcess {
    /// Opens a process; [`None`] where it has ended, or nothing is known about it yet.
    pub(super) fn open(
        tgid: u32,
        maps: &Lookups,
        locations: &ProcessLocations,
        locks: LockNaming,
    ) -> Option<Self> {
        let opened = Process::open(tgid).ok()?;
        let mut process = Self {
            files: FileKinds::open(&opened).ok(),
            gil: None,
            location: ProcessLocation::default(),
            locks: KnownLocks::new(locks),
            requests: HashMap::new(),
            next_search: None,
            memory: PageCache::new(opened),
            code: ProcessCode::default(),
            symbols: KnownCode::default(),
            interpreter: None,
            tracked: TrackedProcess::default(),
            states: ThreadStates::default(),
            list_pages: Vec::new(),
            stack_pages: Vec::new(),
            cut_tasks: 0,
            pass: 0,
        };
        process.update(tgid, maps, locations).then_some(process)
    }

    /// Takes over what the maps say of the process; [`false`] where it runs another program than when
    /// it was opened.
    pub(super) fn update(
        &mut self,
        tgid: u32,
        maps: &Lookups,
        locations: &ProcessLocations,
    ) -> bool {
        if !self.memory.is_alive() {
            return false;
        }
        let Some((tracked, state)) = maps.process(tgid) else {
            return false;
        };
        self.symbols.note(&state);
        self.memory.clear();
        self.gil = None;
        self.location = locations.get(tgid);
        if let Some(files) = &mut self.files {
            files.begin_pass();
        }
        self.code.update(maps, &tracked);
        if tracked == self.tracked {
            return true;
        }
        let is_same_interpreter = tracked.interpreters_head == self.tracked.interpreters_head
            && tracked.layout == self.tracked.layout
            && tracked.gil_holder == self.tracked.gil_holder
            && tracked.tasks == self.tracked.tasks;
        if !is_same_interpreter {
            self.interpreter = interpreter(&tracked, maps.layout(tracked.layout));
            self.symbols.clear();
            self.states.clear();
            self.requests.clear();
        }
        self.tracked = tracked;
        true
    }

    /// Why a thread of it waits that is in this `__state` of the kernel.
    pub(super) fn reason(&mut self, state: u32, registers: &Registers) -> WaitReason {
        /// `TASK_UNINTERRUPTIBLE`.
        const UNINTERRUPTIBLE: u32 = 2;
        let thread = ThreadAtRest {
            system_call: system_call(registers),
            uninterruptible: state & UNINTERRUPTIBLE != 0,
            runnable: state == 0,
        };
        self.gil_words();
        let gil = self.gil.as_ref();
        let files = &mut self.files;
        let file = |descriptor| {
            let files = files.as_mut();
            files.map_or(FileKind::Unknown, |files| files.kind(descriptor))
        };
        reason(&thread, file, gil)
    }

    /// The GIL for which a thread waits, and who holds it.
    pub(super) fn gil_wait(&mut self, registers: &Registers) -> Option<(Gil, HolderPointer)> {
        let (_, [word, ..]) = registers.system_call()?;
        let gil = self.gil_words().find(word)?;
        Some((gil, self.holder(gil)))
    }

    /// Who holds the GILs of this process now.
    pub(super) fn gil_holders(&mut self) -> Vec<(Gil, HolderPointer)> {
        self.memory.clear();
        let gils: Vec<_> = self.gil_words().all().collect();
        let holders = gils.into_iter().map(|gil| (gil, self.holder(gil)));
        holders.collect()
    }

    /// The lock for which a thread with this `pthread_self()` waits; [`None`] for what is no lock in memory,
    /// such as one of a file.
    pub(super) fn lock(
        &mut self,
        registers: &Registers,
        thread_id: u64,
        scratch: &mut Scratch,
    ) -> Option<Lock> {
        let word = self.awaited_lock(registers, thread_id)?;
        let state = self.states(thread_id).first().map(|it| it.address);
        let (Some(interpreter), Some(state)) = (&self.interpreter, state) else {
            return Some(Lock::of_word(word));
        };
        let mut reader = LockReader::new(&self.memory, scratch, &interpreter.layout);
        Some(reader.find(state, word))
    }

    /// What a thread with this `pthread_self()` waits for that waits for a lock, if that is because the threads of its
    /// interpreter are stopped or are to be.
    pub(super) fn stop(&mut self, registers: &Registers, thread_id: u64) -> Option<Stop> {
        let layout = self.interpreter.as_ref()?.layout;
        if !layout.is_free_threaded() {
            return None;
        }
        let word = self.awaited_lock(registers, thread_id)?.address();
        let wait = StopWait::of(&self.memory, &layout, self.states(thread_id), word)?;
        let interpreter = wait.state.interpreter;
        if let Some(request) = wait.request {
            self.remember_request(interpreter, request);
        }
        // With the stack, so that a copy of its pages has this too.
        let request = self.requests.get(&interpreter.0);
        let requester = request.and_then(|it| requester(&self.memory, &layout, *it, interpreter));
        Some(Stop { wait, requester })
    }

    /// The thread that has stopped another one; [`None`] of the one that stops the others, and where that is not known.
    pub(super) fn stopper(&mut self, stop: Stop) -> Option<HolderPointer> {
        let layout = self.interpreter.as_ref()?.layout;
        let requester = match stop.requester {
            Some(requester) => requester,
            None => self.find_requester(&layout, stop.wait.state.interpreter)?,
        };
        let thread_id = stop.wait.stopper(&self.memory, &layout, requester)?;
        Some(self.holder_with(thread_id))
    }

    /// Looks for the request of an interpreter, if that is due.
    fn find_requester(&mut self, layout: &Layout, interpreter: UserAddr) -> Option<UserAddr> {
        let now = Instant::now();
        let (due, pause) = self.next_search.unwrap_or((now, SEARCH_AGAIN));
        if self.memory.is_snapshot() || now < due {
            return None;
        }
        self.next_search = Some((now + pause, (2 * pause).min(MAX_SEARCH_AGAIN)));
        let request = find_request(&self.memory, layout, interpreter)?;
        self.remember_request(interpreter, request);
        requester(&self.memory, layout, request, interpreter)
    }

    /// Remembers where an interpreter notes that its threads are to be stopped.
    fn remember_request(&mut self, interpreter: UserAddr, request: UserAddr) {
        if self.requests.len() >= MAX_GILS && !self.requests.contains_key(&interpreter.0) {
            self.requests.clear();
        }
        self.requests.insert(interpreter.0, request);
    }

    /// The word of the lock for which a thread with this `pthread_self()` waits.
    fn awaited_lock(&self, registers: &Registers, thread_id: u64) -> Option<LockWord> {
        let word = awaited_word(registers)?;
        let is_of_python = !self.states(thread_id).is_empty();
        let interpreter = self.interpreter.as_ref().filter(|_| is_of_python);
        let layout = interpreter.map(|interpreter| &interpreter.layout);
        let stack_pointer = registers.stack_pointer();
        Some(word_of_lock(&self.memory, layout, word, stack_pointer))
    }

    /// Looks up the name of a lock of it.
    pub(super) fn look_up_lock(&mut self, lock: Lock, scratch: &mut Scratch) -> FoundLock {
        if self.interpreter.is_none() {
            return self.locks.look_up_unnamed(lock);
        }
        let is_searched = !self.memory.is_snapshot();
        let interpreter = self.interpreter.as_ref().filter(|_| is_searched);
        let mut reader = interpreter
            .map(|interpreter| LockReader::new(&self.memory, scratch, &interpreter.layout));
        self.locks.look_up(lock, reader.as_mut())
    }

    /// `pthread_self()` of the thread that holds a lock of it, where the lock says who does.
    pub(super) fn lock_owner(&self, lock: &Lock, scratch: &mut Scratch) -> Option<u64> {
        let interpreter = self.interpreter.as_ref()?;
        LockReader::new(&self.memory, scratch, &interpreter.layout).owner(lock)
    }

    /// The locks that a thread with this `pthread_self()` has entered by `with` statements, but for the one for which it
    /// waits: it has released that by itself.
    pub(super) fn entered_locks(
        &self,
        registers: &Registers,
        thread_id: u64,
        scratch: &mut Scratch,
    ) -> Vec<EnteredLock> {
        let state = self.states(thread_id).first().map(|it| it.address);
        let Some((interpreter, state)) = self.interpreter.as_ref().zip(state) else {
            return Vec::new();
        };
        let awaited = self.awaited_lock(registers, thread_id);
        let entered = LockReader::new(&self.memory, scratch, &interpreter.layout).entered(state);
        entered_but(entered, awaited)
    }

    fn holder(&self, gil: Gil) -> HolderPointer {
        let Some(interpreter) = &self.interpreter else {
            return HolderPointer::Unknown;
        };
        let layout = &interpreter.layout;
        let state = gil.holder(&self.memory, layout, interpreter.gil_holder);
        if state.is_null() {
            return HolderPointer::Nobody;
        }
        let thread_id = self.memory.word(state.field(layout.thread.thread_id));
        thread_id.map_or(HolderPointer::Unknown, |thread_id| {
            self.holder_with(thread_id)
        })
    }

    fn gil_words(&mut self) -> &GilWords {
        self.gil
            .get_or_insert_with(|| self.location.gil.words(&self.memory))
    }

    /// Who holds a GIL, by `pthread_self()`.
    pub(super) fn holder_with(&self, thread_id: u64) -> HolderPointer {
        HolderPointer::Thread(self.thread_pointer(thread_id))
    }

    /// The thread pointer of a thread with this `pthread_self()`.
    pub(super) fn thread_pointer(&self, thread_id: u64) -> u64 {
        thread_id.wrapping_add(self.tracked.thread_pointer_distance)
    }

    /// `pthread_self()` of a thread with this thread pointer.
    pub(super) fn thread_id(&self, thread_pointer: u64) -> u64 {
        thread_pointer.wrapping_sub(self.tracked.thread_pointer_distance)
    }

    /// The stacks of some of its tasks, at most `most`; [`None`] where it has none that can be read. What there is no time
    /// for until `deadline` is left out.
    ///
    /// All is mostly in the pages where it was the last time, which are copied at once: for the lists, for the first look at
    /// the tasks and for the second one.
    pub(super) fn tasks(&mut self, most: usize, deadline: Instant) -> Option<SampledTasks> {
        let location = self.location.tasks?;
        let target = target_of(self.interpreter.as_ref()?);
        let memory = &self.memory;
        let copy = |pages: Vec<u64>| {
            memory.clear();
            memory.prefetch(pages);
            memory.begin_walk();
        };
        copy(mem::take(&mut self.list_pages));
        let mut tasks = Sampler::new(memory, &target, location).ok()?;
        let now = Instant::now();
        let quarter = deadline.saturating_duration_since(now) / 4;
        let refresh = |addresses: &[UserAddr]| memory.forget(addresses);
        let chosen = tasks.choose(most, now + 2 * quarter, refresh);
        self.list_pages = memory.wanted().0;

        let mut pages: Vec<u64> = chosen.addresses().map(PageCache::page_of).collect();
        if chosen.addresses().count() < most {
            // The same tasks as before.
            pages.append(&mut self.stack_pages);
        }
        copy(pages);
        let looked = tasks.look(chosen, now + 3 * quarter);
        self.stack_pages = memory.wanted().0;
        copy(self.stack_pages.clone());
        Some(tasks.prove(looked, deadline))
    }

    /// Reads the states of a thread where they are not known, if that is due, or those that are known `is_stale`: they
    /// are no longer there. In a copy of some pages they are not.
    pub(super) fn update_states(&mut self, owner: StateOwner, is_stale: bool) -> StatesKnown {
        let Some(interpreter) = &self.interpreter else {
            return StatesKnown::Now;
        };
        if self.memory.is_snapshot() {
            return StatesKnown::Now;
        }
        let target = target_of(interpreter);
        self.states.update(owner, is_stale, || {
            let states = thread_states(&self.memory, &target).ok()?;
            Some(states.into_iter().collect())
        })
    }

    /// The states of a thread, the newest interpreter first.
    pub(super) fn states(&self, thread_id: u64) -> &[ThreadState] {
        self.states.of(thread_id)
    }
}

/// Locks that a thread has entered, but for the one for whose word it waits.
pub(super) fn entered_but(
    mut entered: Vec<EnteredLock>,
    awaited: Option<LockWord>,
) -> Vec<EnteredLock> {
    entered.retain(|lock| awaited.is_none_or(|word| !lock.is(word.address())));
    entered
}

/// The word for which a thread waits in a call of `futex`.
pub(super) fn awaited_word(registers: &Registers) -> Option<u64> {
    futex_word(&system_call(registers)?)
}

/// The system call that a thread is in.
pub(super) fn system_call(registers: &Registers) -> Option<SystemCall> {
    let (number, arguments) = registers.system_call()?;
    let abi = if cfg!(target_arch = "aarch64") {
        // The calls of 32-bit programs have other numbers.
        registers.are_of_64_bits().then_some(Abi::Aarch64)?
    } else if registers.are_of_64_bits() {
        Abi::X86_64
    } else {
        Abi::I386
    };
    Some(SystemCall {
        abi,
        number,
        arguments,
    })
}

fn target_of(interpreter: &Interpreter) -> Target {
    Target {
        interpreters_head: interpreter.head,
        gil_holder: None,
        layout: interpreter.layout,
    }
}

fn interpreter(tracked: &TrackedProcess, layout: Option<Layout>) -> Option<Interpreter> {
    if tracked.interpreters_head == 0 {
        return None;
    }
    Some(Interpreter {
        head: UserAddr(tracked.interpreters_head),
        gil_holder: UserAddr(tracked.gil_holder),
        layout: layout?,
        tasks: tracked.tasks,
    })
}
