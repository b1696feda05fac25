use super::*;

fn owned(owner: u64) -> LockWaiter {
    LockWaiter {
        process: 1,
        switches: 7,
        lock: 0x1000 + owner,
        owner: Some(owner),
        owned: None,
        name: format!("lock of {owner}"),
    }
}

/// A thread of the process that has entered locks.
fn entered(process: u32, locks: &[u64]) -> Entered {
    Entered {
        process,
        switches: 7,
        locks: locks.iter().map(|it| EnteredLock::at(*it)).collect(),
    }
}

/// A thread: for which lock it waits that does not say who holds it, and which it has entered.
struct Clerk {
    tid: u32,
    waiter: Option<LockWaiter>,
    entered: Entered,
}

impl Clerk {
    fn new(tid: u32, locks: &[u64], lock: Option<u64>) -> Self {
        let waiter = |lock| LockWaiter {
            lock,
            owner: None,
            ..owned(0)
        };
        Self {
            tid,
            waiter: lock.map(waiter),
            entered: entered(1, locks),
        }
    }
}

/// The cycles of these threads, and the holders of their locks.
fn found_with(clerks: &[Clerk]) -> (Vec<Vec<u32>>, HashMap<u32, u32>) {
    let waiting = clerks
        .iter()
        .filter_map(|it| Some((it.tid, it.waiter.as_ref()?)));
    let entered = clerks.iter().map(|it| (it.tid, &it.entered));
    let locks = HeldLocks::new(waiting.collect(), entered, HashMap::from([((1, 1), 1)]));
    (locks.cycles(), locks.holders())
}

#[test]
fn threads_that_have_entered_locks_may_be_in_a_deadlock() {
    let clerks = |others: Vec<Clerk>| {
        let first = Clerk::new(1, &[0x10], Some(0x20));
        let mut found = vec![first];
        found.extend(others);
        found_with(&found).0
    };
    let second = || Clerk::new(2, &[0x20, 0x30], Some(0x10));
    assert_eq!(clerks(vec![second()]), [vec![1, 2]]);
    // One that only waits, and one that waits for a lock of an owner.
    assert_eq!(clerks(vec![Clerk::new(2, &[], Some(0x10))]).len(), 0);
    let mut of_owner = second();
    of_owner.waiter.as_mut().unwrap().owner = Some(1);
    assert_eq!(clerks(vec![of_owner]), [vec![1, 2]]);
    // Nobody knows which of two has it; the lock of another process is another one.
    let third = Clerk::new(3, &[0x20], Some(0x40));
    assert_eq!(clerks(vec![second(), third]).len(), 0);
    let mut other = second();
    other.waiter.as_mut().unwrap().process = 2;
    other.entered.process = 2;
    assert_eq!(clerks(vec![other]).len(), 0);
}

#[test]
fn the_only_thread_that_has_entered_a_lock_holds_it_whatever_it_does() {
    let holders = |clerks: &[Clerk]| {
        let mut found: Vec<_> = found_with(clerks).1.into_iter().collect();
        found.sort_unstable();
        found
    };
    let waits = || Clerk::new(1, &[], Some(0x10));
    assert_eq!(holders(&[waits()]), []);
    assert_eq!(holders(&[waits(), Clerk::new(2, &[0x10], None)]), [(1, 2)]);
    // It waits for another one itself, of which nobody knows who has it.
    let waits_too = || Clerk::new(2, &[0x10], Some(0x20));
    assert_eq!(holders(&[waits(), waits_too()]), [(1, 2)]);
    // Of two it is not known which one has.
    let also = Clerk::new(3, &[0x10], None);
    assert_eq!(holders(&[waits(), waits_too(), also]), []);
    let mut other = Clerk::new(2, &[0x10], None);
    other.entered.process = 2;
    assert_eq!(holders(&[waits(), other]), []);
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

/// These threads, which have entered no locks.
fn waiters(waiting: &HashMap<u32, LockWaiter>) -> HeldLocks<'_> {
    let waiting = waiting.iter().map(|(tid, owned)| (*tid, owned));
    HeldLocks::new(waiting.collect(), [], ids())
}

fn found(pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut found = waiters(&waiting(pairs)).cycles();
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
    assert_eq!(waiters(&waiting).cycles(), Vec::<Vec<u32>>::new());
}

#[test]
fn who_holds_a_lock_need_not_wait() {
    // The last one says that the thread itself holds it, which it does not wait for.
    let mut waiting = waiting(&[(1, 2), (3, 30), (4, 4)]);
    assert_eq!(waiters(&waiting).holders(), HashMap::from([(1, 2)]));
    waiting.get_mut(&1).unwrap().owner = None;
    assert_eq!(waiters(&waiting).holders(), HashMap::new());
}

#[test]
fn a_deadlock_is_one_if_it_was_seen_twice() {
    let deadlocks = Deadlocks::default();
    let mut waiting = waiting(&[(1, 2), (2, 1)]);
    let add = |waiting: &HashMap<u32, LockWaiter>| deadlocks.add(&waiters(waiting));
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
    assert!(deadlocks.0.lock().unwrap().len() <= MAX_DEADLOCKS);
    // That which was seen twice is still there.
    assert_eq!(deadlocks.all().len(), 1);
}
