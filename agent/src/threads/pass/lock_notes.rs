//! What is noted of the locks for which threads were proved to wait: their names, who holds them, and that the ends
//! of the waits are to be recorded.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Instant,
};

use agent_common::{maps::LockWait, record::WaitReason, visit::ThreadVisit};

use super::{PassError, Passer, reading::Read};
use crate::threads::{
    deadlocks::{Entered, HeldLocks, LockWaiter, ThreadIds},
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
    pub(super) fn note_held_locks(&mut self, tid: u32, read: &Read, name: Option<&str>) {
        if read.entered.locks.is_empty() {
            self.entered_locks.remove(&tid);
        } else {
            self.entered_locks.insert(tid, read.entered.clone());
        }
        let Some(waiter) = read.lock_waiter.clone() else {
            self.lock_waiters.remove(&tid);
            return;
        };
        let name = name.unwrap_or("a lock").to_owned();
        self.lock_waiters.insert(tid, LockWaiter { name, ..waiter });
    }

    /// Records deadlocks, if they are wanted: of threads whose waits are proved and go on. `heads` are all threads.
    ///
    /// # Errors
    ///
    /// When the thread was given up.
    pub(super) fn find_deadlocks(
        &mut self,
        heads: &[ThreadVisit],
        deadline: Instant,
    ) -> Result<(), PassError> {
        if self.records.deadlocks.is_none() {
            return Ok(());
        }
        let waiters = self.lock_waiters.iter();
        let mut waiting: Vec<u32> = waiters
            .filter(|(tid, waiter)| self.goes_on(**tid, waiter))
            .map(|(tid, _)| *tid)
            .collect();
        // Of those of which it is not read who has the lock nothing is said.
        let is_known = self.read_owners_again(&waiting, deadline)?;
        waiting.retain(|tid| is_known.contains(tid));
        let waiting: HashMap<u32, &LockWaiter> = waiting
            .iter()
            .filter_map(|tid| Some((*tid, self.lock_waiters.get(tid)?)))
            .collect();
        if let Some(deadlocks) = &self.records.deadlocks
            && !waiting.is_empty()
        {
            let entered = self.entered_locks.iter();
            let entered = entered
                .map(|(tid, entered)| (*tid, entered))
                .filter(|(tid, entered)| self.still_has(*tid, entered));
            let locks = HeldLocks::new(waiting, entered, self.thread_ids(heads));
            deadlocks.add(&locks);
            if self.records.snapshot.is_some() {
                self.batch.lock_holders = locks.holders();
            }
        }
        Ok(())
    }

    /// Whether a thread has not run since the locks were read that it has entered.
    fn still_has(&self, tid: u32, entered: &Entered) -> bool {
        self.threads.get(&tid).is_some_and(|known| {
            matches!(known.shown, Shown::Waiting(_))
                && known.stack.is_some()
                && known.visit.switches == entered.switches
                && known.visit.tgid == entered.process
        })
    }

    /// Whether the wait that was noted of a thread goes on.
    fn goes_on(&self, tid: u32, waiter: &LockWaiter) -> bool {
        self.threads.get(&tid).is_some_and(|known| {
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
    }

    /// Reads anew who holds the locks for which threads wait, of those that say that: a lock may have been given to another
    /// one of the threads that wait for it, without the others having run. Returns the threads of which that is known now.
    fn read_owners_again(
        &mut self,
        waiting: &[u32],
        deadline: Instant,
    ) -> Result<HashSet<u32>, PassError> {
        let Self {
            shared,
            walker,
            processes,
            lock_waiters,
            turn,
            ..
        } = self;
        let mut owners = HashMap::new();
        let mut known = HashSet::new();
        for tid in waiting {
            let Some(waiter) = lock_waiters.get_mut(tid) else {
                continue;
            };
            let Some(lock) = &waiter.owned else {
                known.insert(*tid);
                continue;
            };
            let of_lock = (waiter.process, lock.address);
            let owner = match owners.entry(of_lock) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let process = processes.get(&waiter.process);
                    let Some(process) = process.filter(|_| Instant::now() < deadline) else {
                        continue;
                    };
                    let owner = shared.read(*turn, waiter.process, || {
                        if process.memory.is_snapshot() {
                            process.memory.clear();
                        }
                        process.lock_owner(lock, walker.scratch())
                    })?;
                    *unknown.insert(owner)
                }
            };
            waiter.owner = owner;
            known.insert(*tid);
        }
        Ok(known)
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
