//! Deadlocks: threads each of which waits for a lock that the next one holds, and the last one for that of the
//! first.
//!
//! An `RLock` says who holds it. A `Lock` does not: it is held by the one thread that has entered it by a `with` statement
//! and does not wait for it. Who has released it by a call inside the statement is taken for its holder. A deadlock is one
//! if passes have seen it twice: that each of its threads waits is proved, and who holds the locks was read in both
//! passes, between which none of the threads has run: one that does not run releases nothing.
//!
//! Invariant: what is remembered is bounded: of more deadlocks than so many the rest is left out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::python::remote::{EnteredLock, Lock};

/// Most deadlocks that are remembered.
const MAX_DEADLOCKS: usize = 256;

/// A thread of a deadlock. The next one holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockedThread {
    /// The thread.
    pub tid: u32,
    /// The name of the lock for which it waits.
    pub lock: String,
}

/// The deadlocks that passes have seen. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Deadlocks(Arc<Mutex<HashMap<Identity, Seen>>>);

/// Threads by process and `pthread_self()`.
pub(super) type ThreadIds = HashMap<(u32, u64), u32>;

/// The threads, the one with the least id first, and the context switches of each.
type Identity = Vec<(u32, u64)>;

#[derive(Debug)]
struct Seen {
    passes: u64,
    threads: Vec<DeadlockedThread>,
}

/// A thread that waits for a lock, and the locks that it has.
#[derive(Clone, Debug)]
pub(super) struct LockWaiter {
    /// The process of the thread.
    pub(super) process: u32,
    /// Context switches of the thread while it waits.
    pub(super) switches: u64,
    /// The address of the lock, or of its word; 0 where it is not known.
    pub(super) lock: u64,
    /// `pthread_self()` of the thread that holds the lock, if the lock says that.
    pub(super) owner: Option<u64>,
    /// The lock by which its owner is read anew, if it has said who that is.
    pub(super) owned: Option<Lock>,
    /// The name of the lock.
    pub(super) name: String,
}

/// The locks that a thread has by `with` statements.
#[derive(Clone, Debug, Default)]
pub(super) struct Entered {
    /// The process of the thread.
    pub(super) process: u32,
    /// Context switches of the thread while it has them.
    pub(super) switches: u64,
    /// The locks, without the one for which it waits.
    pub(super) locks: Vec<EnteredLock>,
}

/// What the threads of a pass wait for and have.
#[derive(Debug)]
pub(super) struct HeldLocks<'a> {
    /// Threads that wait for locks, by their ids.
    waiting: HashMap<u32, &'a LockWaiter>,
    /// The thread that has entered a lock, by process and address; [`None`] where several seem to: all but one have
    /// released it by themselves.
    by_entered: HashMap<(u32, u64), Option<u32>>,
    /// All threads.
    ids: ThreadIds,
}

impl Deadlocks {
    /// Adds the deadlocks among the threads that wait in a pass.
    pub(super) fn add(&self, locks: &HeldLocks<'_>) {
        let waiting = &locks.waiting;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for cycle in locks.cycles() {
            let identity = cycle
                .iter()
                .filter_map(|tid| Some((*tid, waiting.get(tid)?.switches)))
                .collect();
            let is_known = all.contains_key(&identity);
            if all.len() >= MAX_DEADLOCKS && !is_known {
                // Those that were seen once may be none.
                all.retain(|_, seen| seen.passes > 1);
            }
            if all.len() >= MAX_DEADLOCKS && !is_known {
                continue;
            }
            let seen = all.entry(identity).or_insert_with(|| Seen {
                passes: 0,
                threads: locks.deadlocked(&cycle),
            });
            seen.passes += 1;
        }
    }

    /// Forgets those that passes have seen.
    pub fn clear(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }

    /// Those that were seen twice, by the ids of their threads.
    #[must_use]
    pub fn all(&self) -> Vec<Vec<DeadlockedThread>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.iter().filter(|(_, seen)| seen.passes > 1);
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by_key(|(identity, _)| *identity);
        seen.into_iter()
            .map(|(_, seen)| seen.threads.clone())
            .collect()
    }
}

impl<'a> HeldLocks<'a> {
    /// Threads that wait for locks, others or the same that have entered some, and all threads.
    pub(super) fn new(
        waiting: HashMap<u32, &'a LockWaiter>,
        entered: impl IntoIterator<Item = (u32, &'a Entered)>,
        ids: ThreadIds,
    ) -> Self {
        let mut by_entered = HashMap::new();
        for (tid, Entered { process, locks, .. }) in entered {
            for address in locks.iter().flat_map(EnteredLock::addresses) {
                by_entered
                    .entry((*process, address))
                    .and_modify(|it| {
                        if *it != Some(tid) {
                            *it = None;
                        }
                    })
                    .or_insert(Some(tid));
            }
        }
        Self {
            waiting,
            by_entered,
            ids,
        }
    }

    /// Who holds the locks for which threads wait, by the thread that waits, where that is known and another thread.
    pub(super) fn holders(&self) -> HashMap<u32, u32> {
        let holders = self.waiting.iter().filter_map(|(tid, waiter)| {
            let holder = self.holder(waiter)?;
            (holder != *tid).then_some((*tid, holder))
        });
        holders.collect()
    }

    /// The threads of a cycle, with their locks.
    pub(super) fn deadlocked(&self, cycle: &[u32]) -> Vec<DeadlockedThread> {
        let threads = cycle.iter().filter_map(|tid| {
            Some(DeadlockedThread {
                tid: *tid,
                lock: self.waiting.get(tid)?.name.clone(),
            })
        });
        threads.collect()
    }

    /// The thread that holds the lock for which another one waits.
    fn holder(&self, waiter: &LockWaiter) -> Option<u32> {
        match waiter.owner {
            Some(owner) => self.ids.get(&(waiter.process, owner)).copied(),
            None => *self.by_entered.get(&(waiter.process, waiter.lock))?,
        }
    }

    /// The cycles of threads, the one with the least id first.
    pub(super) fn cycles(&self) -> Vec<Vec<u32>> {
        let holder = |tid: &u32| self.holder(self.waiting.get(tid)?);
        // The walk in which each thread was seen.
        let mut seen = HashMap::new();
        let mut cycles = Vec::new();
        for start in self.waiting.keys() {
            let mut path = Vec::new();
            let mut next = Some(*start);
            while let Some(tid) = next.filter(|tid| !seen.contains_key(tid)) {
                seen.insert(tid, *start);
                path.push(tid);
                next = holder(&tid);
            }
            // Of another walk it was found already.
            let Some(tid) = next.filter(|tid| seen.get(tid) == Some(start)) else {
                continue;
            };
            let mut cycle: Vec<u32> = path.into_iter().skip_while(|it| *it != tid).collect();
            let least = cycle.iter().enumerate().min_by_key(|(_, tid)| **tid);
            let least = least.map_or(0, |(index, _)| index);
            cycle.rotate_left(least);
            // A thread does not wait for a lock that it may take again.
            if cycle.len() > 1 {
                cycles.push(cycle);
            }
        }
        cycles
    }
}

#[cfg(test)]
mod tests;
