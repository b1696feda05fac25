use agent_common::{decode::decode, decoded::Record, scratch::Scratch};

use super::*;
use crate::{
    process::Process,
    python::{remote::LockWord, versions},
};

#[test]
fn a_name_is_sent_as_it_is() {
    let lock = NamedLock::new(7, 1, "Pool.jobs (Queue at 0x7f00)");
    let Ok(Record::LockName(sent)) = decode(&lock.record) else {
        panic!("{:?}", decode(&lock.record));
    };
    assert_eq!(sent.head.lock, lock.hash);
    assert_eq!(sent.name, b"Pool.jobs (Queue at 0x7f00)");
    assert_ne!(
        NamedLock::new(7, 2, "Pool.jobs (Queue at 0x7f00)").hash,
        lock.hash
    );
}

#[test]
fn that_a_lock_has_no_name_is_proved_or_found_out_more_than_once() {
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    let found = |is_searched| FoundLock {
        found_by: 0x1000,
        is_searched,
        is_deferred: false,
    };
    assert_eq!(locks.name(found(false)), None);
    for failures in 1..ATTEMPTS {
        locks.remember(0x1000, None, Lock::at(0x1000), failures);
        assert_eq!(locks.name(found(false)), None);
        assert!(locks.known[&0x1000].is_due());
    }
    assert_eq!(locks.name(found(true)), Some("lock at 0x1000"));
    assert_eq!(locks.name(found(false)), Some("lock at 0x1000"));
    assert!(!locks.known[&0x1000].is_due());
}

#[test]
fn so_many_locks_and_names_are_remembered() {
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    for word in 0..MAX_KNOWN as u64 {
        locks.remember(word, Some(format!("variable_{word}")), Lock::at(word), 0);
    }
    assert_eq!(
        (locks.known.len(), locks.names.len()),
        (MAX_KNOWN, MAX_NAMES)
    );
    locks.remember(MAX_KNOWN as u64, None, Lock::at(1), 0);
    assert_eq!((locks.known.len(), locks.names.len()), (1, 1));
}

/// As of a program that makes one for each request.
#[test]
fn of_many_locks_with_the_same_name_the_first_ones_have_addresses() {
    let name = |locks: &mut KnownLocks, nth: usize, variable: Option<&str>| {
        let word = 0x1000 + nth as u64;
        locks.remember(word, variable.map(str::to_owned), Lock::at(word), 0);
        locks
            .name(FoundLock {
                found_by: word,
                is_searched: true,
                is_deferred: false,
            })
            .map(str::to_owned)
    };
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    for nth in 0..MAX_IDENTITIES {
        let expected = format!("Pool.jobs (lock at {:#x})", 0x1000 + nth);
        assert_eq!(name(&mut locks, nth, Some("Pool.jobs")), Some(expected));
    }
    let without = Some("Pool.jobs (lock)".to_owned());
    assert_eq!(
        name(&mut locks, MAX_IDENTITIES, Some("Pool.jobs")),
        without.clone()
    );
    // Looked up again it is the same one.
    let first = Some("Pool.jobs (lock at 0x1000)".to_owned());
    assert_eq!(name(&mut locks, 0, Some("Pool.jobs")), first);

    let mut locks = KnownLocks::new(LockNaming::WithoutIdentities);
    assert_eq!(name(&mut locks, 0, Some("Pool.jobs")), without);
    assert_eq!(name(&mut locks, 1, None), None);
}

/// The end of a thread with this name, at one of two addresses.
fn thread(nth: usize, name: Option<&str>) -> Lock {
    let mut lock = Lock::at(0x1000 + 0x100 * (nth as u64 % 2));
    lock.class = Some("Thread".to_owned());
    lock.thread = name.map(str::to_owned);
    lock
}

#[test]
fn the_end_of_a_thread_has_its_name() {
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    let mut name = |lock: Lock| {
        let found = locks.look_up(lock.clone(), None);
        if locks.object(found).is_none() {
            locks.remember(lock.address, None, lock, ATTEMPTS);
        }
        locks.name(found).map(str::to_owned)
    };
    let collector = Some("Thread \"collector\"".to_owned());
    assert_eq!(name(thread(0, Some("collector"))), collector);
    // It leaves its address to another one.
    let other = Some("Thread \"Thread-7 (handle)\"".to_owned());
    assert_eq!(name(thread(0, Some("Thread-7 (handle)"))), other);
    // Its name could not be read.
    assert_eq!(name(thread(0, None)), other);
    let variable = Some("Pool.worker".to_owned());
    assert_eq!(
        full_name(variable, &thread(0, Some("collector"))),
        "Pool.worker (Thread \"collector\")"
    );
    let long = full_name(None, &thread(0, Some(&"x".repeat(1000))));
    assert!(long.chars().count() < 60, "{long}");
}

/// As of a program that starts a thread for each request, and waits for its end.
#[test]
fn of_many_threads_that_end_the_first_ones_have_their_names() {
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    for nth in 0..4 * MAX_NAMES {
        let lock = thread(nth, Some(&format!("Thread-{nth} (handle)")));
        locks.look_up(lock.clone(), None);
        locks.remember(lock.address, None, lock, ATTEMPTS);
    }
    let names = |locks: &KnownLocks| locks.names.len();
    assert_eq!((locks.known.len(), names(&locks)), (2, 1));
    assert_eq!(locks.names["Thread"].len(), MAX_IDENTITIES);
    assert_eq!(locks.known[&0x1000].name.as_deref(), Some("Thread"));
    // All others have theirs.
    locks.remember(0x5000, Some("Pool.jobs".to_owned()), Lock::at(0x5000), 0);
    assert_eq!(names(&locks), 2);

    let mut without = KnownLocks::new(LockNaming::WithoutIdentities);
    without.remember(0x1000, None, thread(0, Some("collector")), ATTEMPTS);
    assert_eq!(without.known[&0x1000].name.as_deref(), Some("Thread"));
}

#[test]
fn variables_are_looked_for_of_the_first_threads_that_end() {
    let memory = PageCache::new(Process::open(std::process::id()).unwrap());
    let mut scratch = Scratch::default();
    let layout = &versions::SUPPORTED[0].layout;
    let mut reader = LockReader::new(&memory, &mut scratch, layout);
    let mut locks = KnownLocks::new(LockNaming::WithIdentities);
    for nth in 0..2 * MAX_IDENTITIES {
        let lock = thread(nth, Some(&format!("Thread-{nth}")));
        let found = locks.look_up(lock, Some(&mut reader));
        let name = (nth < MAX_IDENTITIES).then(|| format!("Thread \"Thread-{nth}\""));
        let name = name.unwrap_or_else(|| "Thread".to_owned());
        assert_eq!(locks.name(found), Some(&*name));
    }
    assert_eq!(locks.threads_searched, MAX_IDENTITIES);
    // There is time for others.
    assert!(locks.budget.has_some());
}

#[test]
fn all_words_on_stacks_are_one_lock() {
    for naming in [LockNaming::WithIdentities, LockNaming::WithoutIdentities] {
        let mut locks = KnownLocks::new(naming);
        for word in 0..2 * MAX_KNOWN as u64 {
            let lock = Lock::of_word(LockWord::OnOwnStack(0x7ffc_0000_0000 + 64 * word));
            assert_eq!(full_name(None, &lock), "lock on its own stack");
            let found = locks.look_up(lock, None);
            assert!(!found.is_deferred());
            assert_eq!(locks.name(found), Some("lock on its own stack"));
        }
        assert_eq!((locks.known.len(), locks.names.len()), (1, 1));
    }
}

#[test]
fn so_much_is_read_of_a_process_in_a_second() {
    let mut budget = Budget::new();
    let mut look_ups = 0;
    while budget.has_some() {
        budget.spend(0);
        look_ups += 1;
    }
    assert!(look_ups <= MAX_ENTRIES / LOOK_UP, "{look_ups}");
    budget.since = Instant::now().checked_sub(PERIOD).unwrap();
    assert!(budget.has_some());
    budget.spend(MAX_ENTRIES);
    assert!(!budget.has_some());
}
