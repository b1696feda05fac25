//! What is noted of the locks for which threads were proved to wait: their names, who holds them, and that the ends
//! of the waits are to be recorded.

use std::collections::HashMap;

use agent_common::{maps::LockWait, record::WaitReason, visit::ThreadVisit};

use super::{Passer, reading::Read};
use crate::threads::{
    deadlocks::{LockWaiter, ThreadIds},
    known_thread::Shown,
    locks::FoundLock,
};

impl Passer {
    /// The name of the lock for which a thread was proved to wait, if it is known.
    pub(super) fn lock_name(&mut self, tid: u32, found: FoundLock) -> Option<String> {
        let process = self.threads.get(&tid)?.visit.tgid;
        let name = self.processes.get_mut(&process)?.locks.name(found)?;
        Some(name.to_owned())
    }

    /// Has the end of a thread's wait recorded, which it was proved to be in; with none, that of no other one.
    pub(super) fn note_lock_wait(&mut self, tid: u32, wait: Option<LockWait>) {
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

    /// Notes for which lock a thread was proved to wait, and which it has.
    pub(super) fn note_lock_waiter(&mut self, tid: u32, read: &Read, name: Option<&str>) {
        let Some(waiter) = read.lock_waiter.clone() else {
            self.lock_waiters.remove(&tid);
            return;
        };
        let name = name.unwrap_or("a lock").to_owned();
        self.lock_waiters.insert(tid, LockWaiter { name, ..waiter });
    }

    /// Records deadlocks, if they are wanted: of threads whose waits are proved and go on. `heads` are all threads.
    pub(super) fn find_deadlocks(&self, heads: &[ThreadVisit]) {
        let Some(deadlocks) = &self.records.deadlocks else {
            return;
        };
        let waits = |tid: &u32, waiter: &LockWaiter| {
            self.threads.get(tid).is_some_and(|known| {
                let waits = matches!(
                    known.shown,
                    Shown::Waiting(WaitReason::LOCK | WaitReason::STOPPED)
                );
                waits
                    && known.reason == WaitReason::LOCK
                    && known.stack.is_some()
                    && known.visit.switches == waiter.switches
                    && known.visit.tgid == waiter.process
            })
        };
        let waiting = self.lock_waiters.iter();
        let waiting = waiting.filter(|(tid, waiter)| waits(tid, waiter));
        let waiting: HashMap<_, _> = waiting.map(|(tid, waiter)| (*tid, waiter)).collect();
        if !waiting.is_empty() {
            deadlocks.add(&waiting, &self.thread_ids(heads));
        }
    }

    /// The threads of processes that are open. Those that have ended are not among them: others may have their ids.
    fn thread_ids(&self, heads: &[ThreadVisit]) -> ThreadIds {
        let ids = heads.iter().filter_map(|visit| {
            let process = self.processes.get(&visit.tgid)?;
            let thread_id = process.thread_id(visit.thread_pointer);
            Some(((visit.tgid, thread_id), visit.tid))
        });
        ids.collect()
    }
}
