//! Deadlocks: threads each of which waits for a lock that the next one holds, and the last one for that of the
//! first.
//!
//! An `RLock` says who holds it. A `Lock` does not: of the threads that wait it is held by the one that has entered it by a
//! `with` statement, and waits for another one. A deadlock is one if passes have seen it twice: that each of its threads
//! waits is proved, and who holds the locks was read in both passes, between which none of the threads has run: one that
//! does not run releases nothing.
//!
//! Invariant: what is remembered is bounded: of more deadlocks than so many the rest is left out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::python::remote::{EnteredLock, Lock};

/// Most deadlocks that are remembered, and most threads that wait for locks that others hold.
const MAX_DEADLOCKS: usize = 256;
const MAX_HOLDERS: usize = 4096;

/// A thread of a deadlock. The next one holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockedThread {
    /// The thread.
    pub tid: u32,
    /// The name of the lock for which it waits.
    pub lock: String,
}

/// Who holds the lock for which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The thread that holds it.
    pub tid: u32,
    /// The name of the lock.
    pub lock: String,
}

/// The deadlocks that passes have seen, and who holds locks that say that. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Deadlocks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    deadlocks: HashMap<Identity, Seen>,
    /// By the thread that waits.
    holders: HashMap<u32, LockHolder>,
}

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
    /// The locks that the thread has entered.
    pub(super) entered: Vec<EnteredLock>,
    /// The name of the lock.
    pub(super) name: String,
}

impl Deadlocks {
    /// Adds the deadlocks among the threads that wait in a pass, by their ids, and who of all threads holds their locks.
    pub(super) fn add(&self, waiting: &HashMap<u32, &LockWaiter>, ids: &ThreadIds) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            deadlocks: all,
            holders,
        } = &mut *state;
        let found = lock_holders(waiting, ids);
        // Of those that were not found again it is not known.
        holders.retain(|tid, _| !waiting.contains_key(tid));
        if holders.len().saturating_add(found.len()) > MAX_HOLDERS {
            holders.clear();
        }
        holders.extend(found.into_iter().take(MAX_HOLDERS));
        for cycle in cycles(waiting, ids) {
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
                threads: deadlocked(&cycle, waiting),
            });
            seen.passes += 1;
        }
    }

    /// Those that were seen twice, by the ids of their threads.
    #[must_use]
    pub fn all(&self) -> Vec<Vec<DeadlockedThread>> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = state.deadlocks.iter();
        let seen = all.filter(|(_, seen)| seen.passes > 1);
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable_by_key(|(identity, _)| *identity);
        seen.into_iter()
            .map(|(_, seen)| seen.threads.clone())
            .collect()
    }

    /// Who held the lock for which a thread waits, by the thread that waits, where the lock says that.
    #[must_use]
    pub fn holders(&self) -> HashMap<u32, LockHolder> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.holders.clone()
    }
}

/// Who holds the locks for which threads wait and that say who does, if that is another thread.
pub(super) fn lock_holders(
    waiting: &HashMap<u32, &LockWaiter>,
    ids: &ThreadIds,
) -> HashMap<u32, LockHolder> {
    let holders = waiting.iter().filter_map(|(tid, waiter)| {
        let holder = ids.get(&(waiter.process, waiter.owner?))?;
        let lock = waiter.name.clone();
        (holder != tid).then_some((*tid, LockHolder { tid: *holder, lock }))
    });
    holders.collect()
}

/// The threads of a cycle, with their locks.
pub(super) fn deadlocked(
    cycle: &[u32],
    waiting: &HashMap<u32, &LockWaiter>,
) -> Vec<DeadlockedThread> {
    let threads = cycle.iter().filter_map(|tid| {
        Some(DeadlockedThread {
            tid: *tid,
            lock: waiting.get(tid)?.name.clone(),
        })
    });
    threads.collect()
}

/// The thread that has entered a lock, by process and address; [`None`] where several seem to: all but one have
/// released it by themselves, as those that wait for a condition do.
fn by_entered(waiting: &HashMap<u32, &LockWaiter>) -> HashMap<(u32, u64), Option<u32>> {
    let mut threads = HashMap::new();
    for (tid, waiter) in waiting {
        // It wants the others back.
        let has = |lock: &&EnteredLock| !lock.is(waiter.lock);
        for address in waiter
            .entered
            .iter()
            .filter(has)
            .flat_map(EnteredLock::addresses)
        {
            threads
                .entry((waiter.process, address))
                .and_modify(|it| {
                    if *it != Some(*tid) {
                        *it = None;
                    }
                })
                .or_insert(Some(*tid));
        }
    }
    threads
}

/// The cycles of threads, the one with the least id first.
pub(super) fn cycles(waiting: &HashMap<u32, &LockWaiter>, ids: &ThreadIds) -> Vec<Vec<u32>> {
    let by_entered = by_entered(waiting);
    let holder = |tid: &u32| {
        let waiter = waiting.get(tid)?;
        match waiter.owner {
            Some(owner) => ids.get(&(waiter.process, owner)).copied(),
            None => *by_entered.get(&(waiter.process, waiter.lock))?,
        }
    };
    // The walk in which each thread was seen.
    let mut seen = HashMap::new();
    let mut cycles = Vec::new();
    for start in waiting.keys() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(owner: u64) -> LockWaiter {
        LockWaiter {
            process: 1,
            switches: 7,
            lock: 0x1000 + owner,
            owner: Some(owner),
            owned: None,
            entered: Vec::new(),
            name: format!("lock of {owner}"),
        }
    }

    /// A thread that has entered locks and waits for one that does not say who holds it.
    fn entered(tid: u32, locks: &[u64], lock: u64) -> (u32, LockWaiter) {
        let waiter = LockWaiter {
            lock,
            owner: None,
            entered: locks.iter().map(|it| EnteredLock::at(*it)).collect(),
            ..owned(0)
        };
        (tid, waiter)
    }

    #[test]
    fn who_has_entered_a_lock_holds_it() {
        let ids = HashMap::from([((1, 1), 1)]);
        let found = |waiters: &[(u32, LockWaiter)]| {
            cycles(&waiters.iter().map(|(tid, it)| (*tid, it)).collect(), &ids)
        };
        let (first, second) = (entered(1, &[0x10], 0x20), entered(2, &[0x20, 0x30], 0x10));
        assert_eq!(found(&[first.clone(), second.clone()]), [vec![1, 2]]);
        // One that only waits, and one that waits for a lock of an owner.
        assert_eq!(found(&[first.clone(), entered(2, &[], 0x10)]).len(), 0);
        let of_owner = LockWaiter {
            owner: Some(1),
            ..second.1.clone()
        };
        assert_eq!(found(&[first.clone(), (2, of_owner)]), [vec![1, 2]]);
        // Two that have released a lock inside the statement, and want it back.
        let again = [entered(1, &[0x10], 0x10), entered(2, &[0x10], 0x10)];
        assert_eq!(found(&again).len(), 0);
        // Nobody knows which of two has it; the lock of another process is another one.
        assert_eq!(
            found(&[first.clone(), second.clone(), entered(3, &[0x20], 0x40)]).len(),
            0
        );
        let mut other = second;
        other.1.process = 2;
        assert_eq!(found(&[first, other]).len(), 0);
    }

    /// Threads with these ids, the first of each pair waiting for the second.
    fn waiting(pairs: &[(u32, u32)]) -> HashMap<u32, LockWaiter> {
        let owned = pairs
            .iter()
            .map(|(tid, owner)| (*tid, owned(u64::from(*owner) + 100)));
        owned.collect()
    }

    /// The ids of all threads that may be in these.
    fn ids() -> ThreadIds {
        (0..20)
            .map(|tid| ((1, u64::from(tid) + 100), tid))
            .collect()
    }

    fn found(pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let waiting = waiting(pairs);
        let waiting = waiting.iter().map(|(tid, owned)| (*tid, owned)).collect();
        let mut found = cycles(&waiting, &ids());
        found.sort_unstable();
        found
    }

    #[test]
    fn threads_that_wait_for_each_other_are_found() {
        assert_eq!(found(&[]), Vec::<Vec<u32>>::new());
        // The holder of the last lock does not wait.
        assert_eq!(found(&[(1, 2), (2, 3)]), Vec::<Vec<u32>>::new());
        assert_eq!(found(&[(1, 1)]), Vec::<Vec<u32>>::new());
        assert_eq!(found(&[(2, 1), (1, 2)]), [vec![1, 2]]);
        // Others wait for these, and there is another deadlock.
        let pairs = [(9, 3), (3, 7), (7, 5), (5, 3), (4, 9), (10, 11), (11, 10)];
        assert_eq!(found(&pairs), [vec![3, 7, 5], vec![10, 11]]);
    }

    #[test]
    fn threads_of_other_processes_have_other_ids() {
        let mut waiting = waiting(&[(1, 2), (2, 1)]);
        waiting.get_mut(&2).unwrap().process = 2;
        let waiting = waiting.iter().map(|(tid, owned)| (*tid, owned)).collect();
        assert_eq!(cycles(&waiting, &ids()), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn who_holds_a_lock_need_not_wait() {
        let deadlocks = Deadlocks::default();
        let add = |waiting: &HashMap<u32, LockWaiter>| {
            let waiting = waiting.iter().map(|(tid, it)| (*tid, it)).collect();
            deadlocks.add(&waiting, &ids());
        };
        // The last one says that the thread itself holds it, which it does not wait for.
        let mut waiting = waiting(&[(1, 2), (3, 30), (4, 4)]);
        add(&waiting);
        let holder = LockHolder {
            tid: 2,
            lock: "lock of 102".to_owned(),
        };
        assert_eq!(deadlocks.holders(), HashMap::from([(1, holder)]));
        // In the next pass nobody is known to hold it.
        waiting.get_mut(&1).unwrap().owner = None;
        add(&waiting);
        assert_eq!(deadlocks.holders(), HashMap::new());
    }

    #[test]
    fn a_deadlock_is_one_if_it_was_seen_twice() {
        let deadlocks = Deadlocks::default();
        let mut waiting = waiting(&[(1, 2), (2, 1)]);
        let add = |waiting: &HashMap<u32, LockWaiter>| {
            let waiting = waiting.iter().map(|(tid, owned)| (*tid, owned)).collect();
            deadlocks.add(&waiting, &ids());
        };
        add(&waiting);
        assert_eq!(deadlocks.all(), Vec::<Vec<_>>::new());
        // One of them ran meanwhile.
        waiting.get_mut(&2).unwrap().switches = 8;
        add(&waiting);
        assert_eq!(deadlocks.all(), Vec::<Vec<_>>::new());
        add(&waiting);
        let all = deadlocks.clone().all();
        let shown: Vec<_> = all[0].iter().map(|it| (it.tid, &*it.lock)).collect();
        assert_eq!(
            (all.len(), shown),
            (1, vec![(1, "lock of 102"), (2, "lock of 101")])
        );
        for nth in 0..2 * u64::try_from(MAX_DEADLOCKS).unwrap() {
            waiting.get_mut(&2).unwrap().switches = 9 + nth;
            add(&waiting);
        }
        assert!(deadlocks.0.lock().unwrap().deadlocks.len() <= MAX_DEADLOCKS);
        // That which was seen twice is still there.
        assert_eq!(deadlocks.all().len(), 1);
    }
}
