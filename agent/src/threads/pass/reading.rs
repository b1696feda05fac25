//! Reads the stack of a thread once, and what it waits for, without proof.

use std::sync::Arc;

use agent_common::{
    maps::LockWait,
    record::{PythonUnwindStatus, WaitReason, WantedTable},
    scratch::Scratch,
};

use super::{PassError, Passer, changed::Changed};
use crate::{
    bpf::monotonic_ns,
    python::gil::Gil,
    threads::{
        batch::Batch,
        code::Code,
        deadlocks::{Entered, LockWaiter},
        gil::GilWait,
        locks::FoundLock,
        names::{self, NamedThread},
        process::{VisitedProcess, awaited_word},
        shared::Shared,
        thread_states::{StateOwner, StatesKnown},
        walker::{Source, StackRecords, Walked, Walker},
    },
};

/// What was read of a thread.
pub(super) struct Read {
    pub(super) stack: Walked,
    pub(super) records: StackRecords,
    /// The record of the thread's name, if it is to be sent.
    pub(super) name: Option<Vec<u8>>,
    pub(super) reason: WaitReason,
    /// As [`ThreadDetails::rest_ns`](agent_common::visit::ThreadDetails::rest_ns).
    pub(super) rest_ns: u64,
    pub(super) gil: Option<GilWait>,
    pub(super) lock: Option<FoundLock>,
    /// The wait for it, if its end is to be recorded.
    pub(super) lock_wait: Option<LockWait>,
    /// Who holds it, if that is wanted; without its name.
    pub(super) lock_waiter: Option<LockWaiter>,
    /// The locks that the thread has entered, if that is wanted.
    pub(super) entered: Entered,
    /// The pages of the walk.
    pub(super) pages: Vec<u64>,
    /// Whether all of them were there.
    pub(super) is_complete: bool,
    /// Whether the thread may have a state that is not known yet.
    pub(super) states: StatesKnown,
}

impl Passer {
    /// Reads the stack of a thread, its name, and why it waits; [`None`] where its process has ended or is
    /// left out, or is not known yet.
    pub(super) fn read(&mut self, changed: &Changed) -> Result<Option<Read>, PassError> {
        let shared = Arc::clone(&self.shared);
        let read = shared.read(self.turn, changed.visit.tgid, || self.try_read(changed));
        Ok(read?)
    }

    fn try_read(&mut self, changed: &Changed) -> Option<Read> {
        let Changed { visit, details, .. } = changed;
        self.open_process(visit.tgid)?;
        let Self {
            shared,
            walker,
            processes,
            threads,
            batch,
            pass,
            reads,
            locks,
            records: wanted_records,
            ..
        } = self;
        let process = processes.get_mut(&visit.tgid)?;
        let known = threads.get(&visit.tid)?;
        process.memory.begin_walk();
        let (reason, gil) = wait(process, changed, reads.gil, *pass);
        let thread_id = process.thread_id(visit.thread_pointer);
        let (stack, records, states) = walk(process, walker, shared, batch, changed);
        let (reason, gil) = if reason == WaitReason::GIL && stack.holds_gil {
            // For the mutex with which it gives the GIL up.
            (WaitReason::OTHER, None)
        } else {
            (reason, gil)
        };
        let stop = (reason == WaitReason::LOCK)
            .then(|| process.stop(&details.registers, thread_id))
            .flatten();
        let reason = if stop.is_some() {
            WaitReason::STOP_THE_WORLD
        } else {
            reason
        };
        shared.status.add_read();
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
        let gil = match stop.filter(|_| reads.gil) {
            Some(stop) => process.stopper(stop).map(|holder| GilWait {
                gil: Gil::Only,
                holder,
                pass: *pass,
            }),
            None => gil,
        };
        let lock = lock.map(|lock| process.look_up_lock(lock, walker.scratch()));
        let is_wanted = wanted_records.deadlocks.is_some();
        let lock_waiter = lock.filter(|_| is_wanted).map(|lock| {
            let object = process.locks.object(lock).cloned();
            let owner = object
                .as_ref()
                .and_then(|object| process.lock_owner(object, walker.scratch()));
            LockWaiter {
                process: visit.tgid,
                switches: visit.switches,
                lock: lock.address(),
                owner,
                owned: object.filter(|_| owner.is_some()),
                name: String::new(),
            }
        });
        // In a snapshot any thread is shown that holds a lock, else those in deadlocks. Not in copies of pages, which lack some.
        let is_shown = lock_waiter.is_some() || wanted_records.snapshot.is_some();
        let entered = Entered {
            process: visit.tgid,
            switches: visit.switches,
            locks: if is_wanted && is_shown && !process.memory.is_snapshot() {
                process.entered_locks(&details.registers, thread_id, walker.scratch())
            } else {
                Vec::new()
            },
        };
        let is_due = is_complete && monotonic_ns() >= known.name_due_ns;
        if is_due && process.memory.is_snapshot() {
            // The stack is walked, and a snapshot lacks the pages of the name.
            process.memory.clear();
        }
        let name = is_due.then(|| name_record(changed, &stack, process, walker.scratch()));
        Some(Read {
            stack,
            records,
            name,
            reason,
            rest_ns: details.rest_ns,
            gil,
            lock,
            lock_wait,
            lock_waiter,
            entered,
            pages,
            is_complete,
            states,
        })
    }
}

/// Reads the stack of a thread, and its states where they are not known.
fn walk(
    process: &mut VisitedProcess,
    walker: &mut Walker,
    shared: &Shared,
    batch: &mut Batch,
    changed: &Changed,
) -> (Walked, StackRecords, StatesKnown) {
    let tgid = changed.visit.tgid;
    let thread_id = process.thread_id(changed.visit.thread_pointer);
    let owner = StateOwner {
        tid: changed.visit.tid,
        thread_id,
    };
    let mut wanted = Vec::new();
    let mut is_stale = false;
    let found = loop {
        let states_known = process.update_states(owner, is_stale);
        let states = process.states(thread_id).to_vec();
        let source = Source {
            memory: &process.memory,
            interpreter: process.interpreter.as_ref(),
            states: &states,
            thread_id,
            registers: &changed.details.registers,
            kernel: &changed.kernel,
        };
        let mut code = Code::new(&shared.maps, &mut process.code, tgid, &mut wanted);
        let (mut stack, records) = walker.walk(&source, &mut code, &mut process.symbols, batch);
        stack.is_whole &= wanted.is_empty();
        let is_lost = stack.python_status == PythonUnwindStatus::THREAD_FAULT;
        if !is_lost || is_stale || states.is_empty() {
            break (stack, records, states_known);
        }
        is_stale = true;
    };
    for executable in wanted {
        batch.want_table(WantedTable::of(executable, tgid));
    }
    found
}

/// The record of the name of a thread with this stack.
fn name_record(
    changed: &Changed,
    stack: &Walked,
    process: &VisitedProcess,
    scratch: &mut Scratch,
) -> Vec<u8> {
    let thread = NamedThread {
        tgid: changed.visit.tgid,
        tid: changed.visit.tid,
        comm: changed.details.comm,
    };
    let layout = process.interpreter.as_ref().map(|it| &it.layout);
    names::record(&thread, stack, &process.memory, layout, scratch)
}

/// Why a thread does not run, and for which GIL it waits if that is why and it is looked at.
fn wait(
    process: &mut VisitedProcess,
    changed: &Changed,
    with_gil: bool,
    pass: u64,
) -> (WaitReason, Option<GilWait>) {
    let registers = &changed.details.registers;
    let reason = process.reason(changed.visit.state, registers);
    let gil = (with_gil && reason == WaitReason::GIL)
        .then(|| process.gil_wait(registers))
        .flatten()
        .map(|(gil, holder)| GilWait { gil, holder, pass });
    (reason, gil)
}
