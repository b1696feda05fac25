//! One pass: every thread of the profiled processes at one instant.
//!
//! ```text
//! visit all ─► changed ones: registers ─► reason, walk ─► visit those again: proved? ─► samples
//!         └──► others: they have the stack that they had
//! ```
//!
//! Invariants: a stack is used only if it is *proved*: its thread was on no processor and made no context
//! switch from before the registers were read until after the last read of its memory; each thread
//! gets all of the elapsed time, whether its stack is proved or not.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{
    limits::MAX_KNOWN_THREADS,
    maps::LockWait,
    record::{
        NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample, WaitReason, WantedTable,
    },
    visit::{ThreadDetails, ThreadVisit},
};

use super::{
    batch::{Batch, BlockedThread, LockWaitSample, RunningThread},
    deadlocks::OwnedLock,
    gil::{GilHolders, GilWait, Holder},
    known_thread::{KnownThread, Shown},
    locks::{FoundLock, LockNaming, NamedLock},
    names,
    page_cache::PageCache,
    process::{VisitedProcess, awaited_word},
    settings::{Settings, WaitRecords},
    shared::{GivenUp, Shared},
    walker::{Source, StackRecords, Walked, Walker},
};
use crate::{
    bpf::{Visit, monotonic_ns},
    workers::Subject,
};

/// Stacks that are read before they are proved, at the first attempt. Most threads wait for long; one that
/// ran meanwhile is read again on its own.
const CHUNK: usize = 32;

/// Most chunks of a pass with many threads: each visits all threads of the process again.
const MAX_CHUNKS: usize = 16;

/// Times that the stack of a thread that runs for short times is read again.
const ATTEMPTS: usize = 6;

/// Most processes that are open after a pass: each takes five file descriptors. One whose threads do not run
/// need not be.
const MAX_OPEN: usize = 64;

/// Most that are open in the middle of a pass.
const MAX_OPEN_IN_PASS: usize = 4 * MAX_OPEN;

/// Most threads that are remembered.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Most time for reading stacks in a pass; threads that there is no time for have none.
const LIMIT: Duration = Duration::from_millis(50);

/// Why a pass has not ended.
#[derive(Debug)]
pub(super) enum PassError {
    /// The iterator or a map has failed.
    Failed(io::Error),
    /// A process has held the thread up for so long that another one makes the passes.
    GivenUp,
}

impl From<GivenUp> for PassError {
    fn from(_: GivenUp) -> Self {
        Self::GivenUp
    }
}

impl From<io::Error> for PassError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes passes, one after another.
pub(super) struct Passer {
    shared: Arc<Shared>,
    /// The turn of the thread that makes them.
    turn: u32,
    walker: Walker,
    processes: HashMap<u32, VisitedProcess>,
    threads: HashMap<u32, KnownThread>,
    pub(super) batch: Batch,
    /// Processes that could not be opened in this pass.
    unknown: HashSet<u32>,
    resend_before_ns: u64,
    /// The number of the pass.
    pass: u64,
    /// Whether it looks at who holds the GIL.
    with_gil: bool,
    /// How it names the locks for which threads wait, if it looks at them.
    locks: Option<LockNaming>,
    records: WaitRecords,
    /// Threads that wait for locks of which is known who holds them.
    owned_locks: HashMap<u32, OwnedLock>,
}

/// A thread whose stack is to be read.
struct Changed {
    visit: ThreadVisit,
    details: ThreadDetails,
    /// Addresses of kernel frames, as bytes.
    kernel: Vec<u8>,
}

/// A thread that ran while its stack was read.
struct Again {
    tgid: u32,
    tid: u32,
    /// The pages of the last walk.
    pages: Vec<u64>,
    /// Why it waited when the pass saw it.
    reason: WaitReason,
    /// What was recorded of it since.
    details: Option<Changed>,
}

/// What was read of a thread.
struct Read {
    stack: Walked,
    records: StackRecords,
    /// The record of the thread's name, if it is to be sent.
    name: Option<Vec<u8>>,
    reason: WaitReason,
    gil: Option<GilWait>,
    lock: Option<FoundLock>,
    /// The wait for it, if its end is to be recorded.
    lock_wait: Option<LockWait>,
    /// Who holds it, if that is wanted and known; without its name.
    lock_owner: Option<OwnedLock>,
    /// The pages of the walk.
    pages: Vec<u64>,
    /// Whether all of them were there.
    is_complete: bool,
}

impl Changed {
    fn of(visit: &Visit<'_>) -> Option<Self> {
        let (details, kernel) = visit.details?;
        Some(Self {
            visit: visit.head,
            details,
            kernel: kernel.to_vec(),
        })
    }
}

impl Passer {
    pub(super) fn new(shared: Arc<Shared>, walker: Walker, turn: u32, settings: &Settings) -> Self {
        Self {
            shared,
            turn,
            walker,
            processes: HashMap::new(),
            threads: HashMap::new(),
            batch: Batch::default(),
            unknown: HashSet::new(),
            resend_before_ns: 0,
            pass: 0,
            with_gil: settings.with_gil,
            locks: settings.locks,
            records: settings.records.clone(),
            owned_locks: HashMap::new(),
        }
    }

    /// Makes a pass: each thread gets a sample of `elapsed_ns` nanoseconds.
    ///
    /// # Errors
    ///
    /// When the iterator or a map fails, or the thread was given up.
    pub(super) fn pass(&mut self, elapsed_ns: u64) -> Result<(), PassError> {
        self.pass += 1;
        self.resend_if_due();
        let mut heads = Vec::with_capacity(self.threads.len());
        let mut changed = Vec::new();
        let time_ns = monotonic_ns();
        self.unknown.clear();
        for visit in self.shared.visits().visit_all()? {
            heads.push(visit.head);
            changed.extend(Changed::of(&visit));
        }
        for head in &heads {
            self.meet(head, time_ns);
        }
        if !changed.is_empty() {
            // Where there is no time for all, it is not always the same ones that have no stacks.
            let first = usize::try_from(self.pass).unwrap_or(0) % changed.len();
            changed.rotate_left(first);
        }
        self.shared.status.add_visits(heads.len());
        self.read_stacks(&changed)?;
        for head in &heads {
            if let Some(known) = self.threads.get_mut(&head.tid) {
                known.show(head, elapsed_ns);
            }
        }
        let holders = if self.with_gil {
            self.gil_holders(&heads)?
        } else {
            GilHolders::default()
        };
        for head in &heads {
            self.add_sample(head, &holders, time_ns, elapsed_ns);
        }
        self.find_deadlocks();
        for process in self.processes.values() {
            // They are read anew in the next pass.
            process.memory.clear();
        }
        self.forget_gone();
        Ok(())
    }

    /// Has all sent again that the receivers may have forgotten.
    fn resend_if_due(&mut self) {
        let before = self.shared.maps.resend_before_ns();
        if before == self.resend_before_ns {
            return;
        }
        self.resend_before_ns = before;
        self.batch.resend();
        for process in self.processes.values_mut() {
            process.symbols.clear();
        }
        for known in self.threads.values_mut() {
            known.reset();
            known.name_due_ns = 0;
        }
        self.shared.visits().forget_all();
    }

    /// Notes that a thread is there.
    fn meet(&mut self, head: &ThreadVisit, now_ns: u64) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&head.tid) {
            return;
        }
        let known = self
            .threads
            .entry(head.tid)
            .or_insert_with(|| KnownThread::new(*head));
        if !known.is(head) {
            *known = KnownThread::new(*head);
        }
        known.pass = self.pass;
        if head.on_cpu != 0 {
            known.reset();
        }
        if known.again_ns != 0 && now_ns >= known.again_ns {
            known.again_ns = 0;
            // It is read in the next pass.
            self.shared.visits().forget(head.tid);
        }
    }

    /// Reads the stacks of threads and proves them.
    fn read_stacks(&mut self, changed: &[Changed]) -> Result<(), PassError> {
        let deadline = Instant::now() + LIMIT;
        let mut again = Vec::new();
        for chunk in changed.chunks(CHUNK.max(changed.len() / MAX_CHUNKS)) {
            if Instant::now() < deadline {
                self.read_chunk(chunk, &mut again)?;
            } else {
                for changed in chunk {
                    self.give_up(changed.visit.tid);
                }
            }
        }
        for again in again {
            if Instant::now() < deadline {
                self.read_again(again)?;
            } else {
                self.give_up(again.tid);
            }
        }
        Ok(())
    }

    /// Reads and proves some stacks; those of threads that ran meanwhile are to be read again.
    fn read_chunk(&mut self, chunk: &[Changed], again: &mut Vec<Again>) -> Result<(), PassError> {
        self.shared.visits().begin_chunk()?;
        for changed in chunk {
            if let Some(process) = self.processes.get(&changed.visit.tgid) {
                process.memory.clear();
            }
        }
        let mut walked = HashMap::with_capacity(chunk.len());
        for changed in chunk {
            let visit = changed.visit;
            if let Some(known) = self.threads.get_mut(&visit.tid) {
                known.reset();
            }
            if let Some(read) = self.read(changed)?
                && self.note(&visit)?
            {
                if let Some(known) = self.threads.get_mut(&visit.tid) {
                    known.reason = read.reason;
                    known.gil = read.gil;
                }
                walked.insert(visit.tid, (visit, read));
            } else {
                self.give_up(visit.tid);
            }
        }
        for (head, details) in self.visit_noted(chunk.len())? {
            let Some((before, read)) = walked.remove(&head.tid) else {
                continue;
            };
            if did_not_run(&before, &head) {
                self.set_stack(head.tid, &read);
            } else {
                again.push(Again {
                    tgid: head.tgid,
                    tid: head.tid,
                    pages: read.pages,
                    reason: read.reason,
                    details,
                });
            }
        }
        // They have ended.
        for tid in walked.into_keys() {
            self.give_up(tid);
        }
        Ok(())
    }

    /// Reads the stack of a thread again that runs for short times: as a copy of the pages of its last
    /// walk, which is walked when it is proved.
    ///
    /// A stack of another wait than the one that the pass has seen is not used: long waits would be seen
    /// more often than they are.
    fn read_again(&mut self, mut again: Again) -> Result<(), PassError> {
        let Again { tgid, tid, .. } = again;
        // It may have been closed to read others.
        if self.open_process(tgid).is_none() {
            self.give_up(tid);
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let changed = match again.details.take() {
                Some(changed) => changed,
                None => match self.select(tid)? {
                    Some(changed) => changed,
                    // It runs.
                    None => continue,
                },
            };
            let shared = Arc::clone(&self.shared);
            let processes = &self.processes;
            let copied = shared.read(self.turn, tgid, || {
                let process = processes.get(&tgid)?;
                process.memory.take_snapshot(&again.pages);
                Some(())
            });
            if copied.map_err(PassError::from)?.is_none() {
                break;
            }
            self.shared.visits().begin_chunk()?;
            if !self.note(&changed.visit)? {
                break;
            }
            let seen = self.visit_noted(1)?.pop();
            let Some((head, details)) = seen.filter(|(head, _)| head.tid == tid) else {
                // It has ended.
                break;
            };
            if !did_not_run(&changed.visit, &head) {
                again.details = details;
                continue;
            }
            let Some(read) = self.read(&changed)? else {
                break;
            };
            if !read.is_complete {
                // The walk has led to other pages.
                again.pages.extend(read.pages);
                again.pages.sort_unstable();
                again.pages.dedup();
                continue;
            }
            let memory = self.processes.get(&tgid).map(|process| &process.memory);
            if read.reason != again.reason || !memory.is_some_and(PageCache::is_alive) {
                break;
            }
            self.set_stack(tid, &read);
            self.clear_memory(tgid);
            return Ok(());
        }
        self.clear_memory(tgid);
        self.give_up(tid);
        Ok(())
    }

    /// Visits a thread once more; [`None`] while it runs.
    fn select(&mut self, tid: u32) -> Result<Option<Changed>, PassError> {
        let mut visits = self.shared.visits();
        visits.begin_chunk()?;
        visits.select(tid).map_err(io::Error::other)?;
        drop(visits);
        let seen = self.visit_noted(1)?.pop();
        Ok(seen.and_then(|(_, details)| details))
    }

    /// Notes that a stack was read; [`false`] where there is no room, and it cannot be proved.
    fn note(&self, visit: &ThreadVisit) -> Result<bool, PassError> {
        let noted = self.shared.visits().note(visit);
        noted.map_err(|error| io::Error::other(error).into())
    }

    /// Visits those again that were noted in this chunk.
    fn visit_noted(&self, count: usize) -> Result<Vec<(ThreadVisit, Option<Changed>)>, PassError> {
        let mut seen = Vec::with_capacity(count);
        for visit in self.shared.visits().visit_noted()? {
            seen.push((visit.head, Changed::of(&visit)));
        }
        Ok(seen)
    }

    /// Takes over a stack that is proved, and sends its records.
    fn set_stack(&mut self, tid: u32, read: &Read) {
        let name = read.lock.and_then(|found| self.lock_name(tid, found));
        self.note_lock_wait(tid, read.lock_wait);
        self.note_lock_owner(tid, read, name.as_deref());
        let process = self.threads.get(&tid).map_or(0, |known| known.visit.tgid);
        let lock = name.map(|name| NamedLock::new(self.walker.seed(), process, &name));
        if let Some(known) = self.threads.get_mut(&tid) {
            known.gil = read.gil;
            known.lock = lock.as_ref().map_or(0, |lock| lock.hash);
            let is_named = !read.lock.is_some_and(FoundLock::is_deferred);
            known.set_stack(read.stack, read.stack.is_whole && is_named, monotonic_ns());
            if let Some(name) = &read.name {
                known.name_due_ns = names::due_ns(read.stack.python_status, monotonic_ns());
                self.batch.add_reference(name);
            }
        }
        if let Some(lock) = &lock
            && self.batch.is_new(lock.hash)
        {
            self.batch.add_reference(&lock.record);
        }
        read.records.send(&read.stack, &mut self.batch);
    }

    /// Has the end of a thread's wait recorded, which it was proved to be in; with none, that of no other one.
    fn note_lock_wait(&mut self, tid: u32, wait: Option<LockWait>) {
        let Some(mut waits) = self.shared.lock_waits() else {
            return;
        };
        let Some(known) = self.threads.get_mut(&tid) else {
            return;
        };
        known.lock_wait = wait;
        match wait {
            Some(wait) if waits.note(tid, wait) => {}
            Some(_) => {
                known.lock_wait = None;
                self.shared.status.add_unrecorded();
            }
            None if known.is_noted => waits.forget(tid),
            None => {}
        }
        known.is_noted = known.lock_wait.is_some();
    }

    /// Notes who holds the lock for which a thread was proved to wait.
    fn note_lock_owner(&mut self, tid: u32, read: &Read, name: Option<&str>) {
        let Some(owned) = read.lock_owner.clone() else {
            self.owned_locks.remove(&tid);
            return;
        };
        let name = name.unwrap_or("an RLock").to_owned();
        self.owned_locks.insert(tid, OwnedLock { name, ..owned });
    }

    /// Records deadlocks, if they are wanted: of threads whose waits are proved and go on.
    fn find_deadlocks(&self) {
        let Some(deadlocks) = &self.records.deadlocks else {
            return;
        };
        let waits = |tid: &u32, owned: &OwnedLock| {
            self.threads.get(tid).is_some_and(|known| {
                known.shown == Shown::Waiting(WaitReason::LOCK)
                    && known.stack.is_some()
                    && known.visit.switches == owned.switches
                    && known.visit.tgid == owned.process
            })
        };
        let waiting = self.owned_locks.iter();
        let waiting = waiting.filter(|(tid, owned)| waits(tid, owned));
        deadlocks.add(&waiting.map(|(tid, owned)| (*tid, owned)).collect());
    }

    /// The name of the lock for which a thread was proved to wait, if it is known.
    fn lock_name(&mut self, tid: u32, found: FoundLock) -> Option<String> {
        let process = self.threads.get(&tid)?.visit.tgid;
        let name = self.processes.get_mut(&process)?.locks.name(found)?;
        Some(name.to_owned())
    }

    fn clear_memory(&self, tgid: u32) {
        if let Some(process) = self.processes.get(&tgid) {
            process.memory.clear();
        }
    }

    /// The stack of a thread could not be proved.
    fn give_up(&mut self, tid: u32) {
        self.shared.status.add_unproved();
        self.shared.visits().forget(tid);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.stack = None;
        }
    }

    /// Reads the stack of a thread, its name, and why it waits; [`None`] where its process has ended or is
    /// left out, or is not known yet.
    fn read(&mut self, changed: &Changed) -> Result<Option<Read>, PassError> {
        let shared = Arc::clone(&self.shared);
        let read = shared.read(self.turn, changed.visit.tgid, || self.try_read(changed));
        Ok(read?)
    }

    fn try_read(&mut self, changed: &Changed) -> Option<Read> {
        let Changed {
            visit,
            details,
            kernel,
        } = changed;
        self.open_process(visit.tgid)?;
        let Self {
            shared,
            walker,
            processes,
            threads,
            batch,
            pass,
            with_gil,
            locks,
            records: wanted_records,
            ..
        } = self;
        let process = processes.get_mut(&visit.tgid)?;
        let known = threads.get(&visit.tid)?;
        process.memory.begin_walk();
        let reason = process.reason(visit, &details.registers);
        let gil = (*with_gil && reason == WaitReason::GIL)
            .then(|| process.gil_wait(&details.registers))
            .flatten()
            .map(|(gil, holder)| GilWait {
                gil,
                holder,
                pass: *pass,
            });
        let thread_id = process.thread_id(visit.thread_pointer);
        let mut wanted = Vec::new();
        let mut is_stale = false;
        let (stack, records) = loop {
            let states = process.states(thread_id, is_stale).to_vec();
            let source = Source {
                maps: &shared.maps,
                memory: &process.memory,
                interpreter: process.interpreter.as_ref(),
                states: &states,
                thread_id,
                registers: &details.registers,
                kernel,
                tgid: visit.tgid,
            };
            let (stack, records) = walker.walk(
                &source,
                &mut process.code,
                &mut process.symbols,
                &mut wanted,
                batch,
            );
            let is_lost = stack.python_status == PythonUnwindStatus::THREAD_FAULT;
            if !is_lost || is_stale || states.is_empty() {
                break (stack, records);
            }
            is_stale = true;
        };
        for executable in wanted {
            batch.want_table(WantedTable::of(executable, visit.tgid));
        }
        let lock = (locks.is_some() && reason == WaitReason::LOCK)
            .then(|| process.lock(&details.registers, thread_id, walker.scratch()))
            .flatten();
        let is_recorded = reason == WaitReason::LOCK && shared.lock_waits().is_some();
        let word = awaited_word(&details.registers).filter(|_| is_recorded);
        let lock_wait = word.map(|word| LockWait {
            start_time_ns: visit.start_time_ns,
            switches: visit.switches,
            word,
        });
        let (pages, is_complete) = process.memory.wanted();
        // In pages that a proof does not need.
        let lock = lock.map(|lock| process.look_up_lock(lock, walker.scratch()));
        let is_wanted = wanted_records.deadlocks.is_some();
        let owner = lock.filter(|_| is_wanted);
        let owner = owner.and_then(|lock| process.lock_owner(lock, walker.scratch()));
        let lock_owner = owner.map(|owner| OwnedLock {
            process: visit.tgid,
            switches: visit.switches,
            thread_id,
            owner,
            name: String::new(),
        });
        let is_due = is_complete && monotonic_ns() >= known.name_due_ns;
        let name = is_due.then(|| names::record(visit, details, &stack, process, walker.scratch()));
        Some(Read {
            stack,
            records,
            name,
            reason,
            gil,
            lock,
            lock_wait,
            lock_owner,
            pages,
            is_complete,
        })
    }

    /// Opens a process, or takes over what is new about it, once in a pass; [`None`] where it has ended
    /// or is left out, or is not known yet.
    fn open_process(&mut self, tgid: u32) -> Option<()> {
        let Shared {
            maps,
            gils,
            workers,
            ..
        } = &*self.shared;
        let present = self.processes.get(&tgid);
        if present.is_some_and(|process| process.pass == self.pass) {
            return Some(());
        }
        let is_known = !self.unknown.contains(&tgid) && maps.process(tgid).is_some();
        let opened = if !is_known || workers.is_quarantined(&Subject::stacks(tgid)) {
            None
        } else {
            let locks = self.locks.unwrap_or(LockNaming::WithoutAddresses);
            match self.processes.remove(&tgid) {
                Some(mut process) => process.update(tgid, maps, gils).then_some(process),
                None => VisitedProcess::open(tgid, maps, gils, locks),
            }
        };
        let Some(mut process) = opened else {
            self.unknown.insert(tgid);
            return None;
        };
        process.pass = self.pass;
        if self.processes.len() >= MAX_OPEN_IN_PASS {
            self.close_processes();
        }
        self.processes.insert(tgid, process);
        Some(())
    }

    /// Reads who holds the GILs of the processes whose threads run or wait for them.
    fn gil_holders(&mut self, heads: &[ThreadVisit]) -> Result<GilHolders, PassError> {
        let deadline = Instant::now() + LIMIT;
        let is_concerned = |head: &&ThreadVisit| {
            let known = self.threads.get(&head.tid);
            known.is_some_and(|known| match known.shown {
                Shown::Elsewhere { .. } => true,
                Shown::Waiting(reason) => reason == WaitReason::GIL,
            })
        };
        let concerned = heads.iter().filter(is_concerned).map(|head| head.tgid);
        let concerned: HashSet<u32> = concerned.collect();
        let threads = heads
            .iter()
            .map(|head| (head.tgid, head.thread_pointer, head.tid));
        let mut holders = GilHolders::of_processes(&concerned, threads);
        for tgid in concerned {
            if Instant::now() >= deadline {
                break;
            }
            let shared = Arc::clone(&self.shared);
            let read = shared.read(self.turn, tgid, || {
                self.open_process(tgid)?;
                Some(self.processes.get_mut(&tgid)?.gil_holders())
            })?;
            if let Some(read) = read {
                holders.add(tgid, &read);
            }
        }
        Ok(holders)
    }

    /// Adds the sample of a thread.
    fn add_sample(
        &mut self,
        head: &ThreadVisit,
        holders: &GilHolders,
        time_ns: u64,
        elapsed_ns: u64,
    ) {
        let Some(known) = self.threads.get(&head.tid) else {
            // One of more than are remembered.
            let unknown = KnownThread::new(*head);
            let sample = unknown.sample(time_ns, elapsed_ns, WaitReason::OTHER);
            self.batch.samples.push(sample);
            return;
        };
        if let Some(times) = &self.records.gil_times {
            let at_rest = known
                .stack
                .filter(|_| matches!(known.shown, Shown::Waiting(_)));
            let holds = holders.holds(head.tgid, head.tid) == Some(true)
                || at_rest.is_some_and(|stack| stack.holds_gil);
            let waits = known.shown == Shown::Waiting(WaitReason::GIL);
            times.add(head.tgid, head.tid, elapsed_ns, holds, waits);
        }
        match known.shown {
            Shown::Elsewhere { is_runnable } => self.batch.running.push(RunningThread {
                tgid: head.tgid,
                tid: head.tid,
                elapsed_ns,
                is_runnable,
                holds_gil: holders.holds(head.tgid, head.tid),
            }),
            Shown::Waiting(reason) => {
                let sample = known.sample(time_ns, elapsed_ns, reason);
                self.batch.samples.push(sample);
                if self.locks.is_some() && reason == WaitReason::LOCK {
                    let of_lock = Sample {
                        kind: ProfileKind::LOCK,
                        ..sample
                    };
                    self.batch.lock_waits.push(LockWaitSample {
                        sample: of_lock,
                        lock: known.lock,
                        switches: known.lock_wait.map_or(0, |wait| wait.switches),
                        start_time_ns: head.start_time_ns,
                    });
                }
                if let (WaitReason::GIL, Some(wait)) = (reason, known.gil) {
                    self.add_gil_wait(&sample, wait, holders);
                }
            }
        }
    }

    /// Adds the sample of a wait for the GIL, of which `waiting` is that of elapsed time.
    fn add_gil_wait(&mut self, waiting: &Sample, wait: GilWait, holders: &GilHolders) {
        let tgid = waiting.tgid;
        let holder = if wait.pass == self.pass {
            // It held the GIL while the other one was proved to wait.
            holders.thread(tgid, wait.holder)
        } else {
            holders.holder(tgid, wait.gil)
        };
        let of_gil = |sample| Sample {
            kind: ProfileKind::GIL,
            ..sample
        };
        match holder {
            Holder::Thread(holding) if holding != waiting.tid => {
                let known = self.threads.get(&holding);
                if let Some((known, reason)) = known.and_then(|it| Some((it, it.waits_with_gil()?)))
                {
                    let sample = known.sample(waiting.time_ns, waiting.value, reason);
                    self.batch.gil_waits.push((of_gil(sample), waiting.tid));
                } else {
                    // It runs, or has got the GIL since its stack was read.
                    self.batch.blocked.push(BlockedThread {
                        tgid,
                        holder: holding,
                        tid: waiting.tid,
                        elapsed_ns: waiting.value,
                    });
                }
            }
            // It is free, or the thread has got it since: it is being handed over.
            Holder::Nobody | Holder::Thread(_) => {
                self.batch.gil_waits.push((of_gil(*waiting), 0));
            }
            Holder::Unknown => {
                let unknown = Sample {
                    tid: 0,
                    stack: 0,
                    native_stack: 0,
                    python_status: PythonUnwindStatus::TORN,
                    native_status: NativeUnwindStatus::NOT_WALKED,
                    wait: WaitReason::NONE,
                    ..of_gil(*waiting)
                };
                self.batch.gil_waits.push((unknown, waiting.tid));
            }
        }
    }

    /// Forgets threads and processes that this pass did not visit.
    fn forget_gone(&mut self) {
        let pass = self.pass;
        let gone: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, known)| known.pass != pass)
            .map(|(tid, _)| *tid)
            .collect();
        for tid in gone {
            let known = self.threads.remove(&tid);
            self.owned_locks.remove(&tid);
            self.shared.visits().forget(tid);
            if known.is_some_and(|known| known.is_noted)
                && let Some(mut waits) = self.shared.lock_waits()
            {
                waits.forget(tid);
            }
        }
        self.close_processes();
    }

    /// Closes the processes that were not read for the longest time, if more are open than may be.
    fn close_processes(&mut self) {
        let surplus = self.processes.len().saturating_sub(MAX_OPEN);
        if surplus == 0 {
            return;
        }
        let mut open: Vec<(u64, u32)> = self
            .processes
            .iter()
            .map(|(tgid, process)| (process.pass, *tgid))
            .collect();
        open.sort_unstable();
        for (_, tgid) in open.into_iter().take(surplus) {
            self.processes.remove(&tgid);
        }
    }
}

/// Whether a thread did not run between two visits, before and after its memory was read.
fn did_not_run(before: &ThreadVisit, after: &ThreadVisit) -> bool {
    after.on_cpu == 0
        && after.switches == before.switches
        && after.start_time_ns == before.start_time_ns
}
