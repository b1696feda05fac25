//! The locks for which threads wait, by name.
//!
//! A stack is proved after it was read, and so is that a lock has no name that could be found: the functions that
//! refer to it may have been gone by then. That it has one needs no proof, since the variable was read with it.
//!
//! Invariants: what is kept of a process is bounded, and so is what is read of it in a second; a name is looked up
//! again after a while: a lock that is gone leaves its address to others. A program that makes a lock for each
//! request does not make a name for each: of many locks with the same name the first ones have their addresses.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agent_common::{
    hash::Hash,
    record::{Header, LockName, RecordKind, Text},
};
use zerocopy::IntoBytes as _;

use super::page_cache::PageCache;
use crate::{
    python::remote::{Lock, LockReader},
    text::shortened,
};

/// Most locks of a process that are remembered.
const MAX_KNOWN: usize = 4096;

/// Most names of a process, without addresses; what has another one has none.
const MAX_NAMES: usize = 1024;

/// Most locks with the same name whose names have their addresses.
const MAX_ADDRESSES: usize = 64;

/// Most entries of dictionaries and objects of a process that are looked at in a second.
const MAX_ENTRIES: u32 = 8192;

/// Entries that a look-up counts as besides, for what it reads in any case.
const LOOK_UP: u32 = 32;

/// Time after which a name is looked up again.
const AGAIN: Duration = Duration::from_secs(30);

/// Times that a name is looked for in vain, while the stack is not proved, until there is none.
const ATTEMPTS: u32 = 3;

/// Most columns of the name of a variable with its class, and of that of the lock's class.
const VARIABLE_WIDTH: usize = 80;
const CLASS_WIDTH: usize = 40;

/// What a lock is that is no object of Python's.
const UNKNOWN_CLASS: &str = "lock";

/// Time in which so many entries may be looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// What names of locks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockNaming {
    /// The class, and the variable that refers to the lock.
    WithoutAddresses,
    /// The address besides, while few locks have the same name.
    WithAddresses,
}

/// The names of the locks of a process.
#[derive(Debug)]
pub(super) struct KnownLocks {
    /// By the address by which they are found.
    known: HashMap<u64, KnownLock>,
    /// Addresses of the locks whose names have them, by name without an address.
    names: HashMap<String, HashSet<u64>>,
    /// Most of them of a name.
    max_addresses: usize,
    budget: Budget,
}

/// Entries that may be looked at.
#[derive(Debug)]
struct Budget {
    since: Instant,
    left: u32,
}

#[derive(Debug)]
struct KnownLock {
    since: Instant,
    /// Its name; [`None`] where nothing is known but its address, which is not to be shown.
    name: Option<String>,
    /// What the name is without its address.
    base: String,
    /// The lock, if it is an object.
    object: Option<Lock>,
    /// Times that no variable was found.
    failures: u32,
}

/// A lock for which a thread waits whose stack was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundLock {
    /// The address by which it was found.
    found_by: u64,
    /// Whether its name was looked for.
    is_searched: bool,
    /// Whether it is to be looked for later, since too much was read of the process.
    is_deferred: bool,
}

impl FoundLock {
    /// Whether its name is to be looked for later.
    pub(super) fn is_deferred(self) -> bool {
        self.is_deferred
    }
}

/// A lock for which a thread waits.
#[derive(Debug)]
pub(super) struct NamedLock {
    /// The hash of its name.
    pub(super) hash: u64,
    /// The record of its name.
    pub(super) record: Vec<u8>,
}

impl KnownLock {
    fn is_due(&self) -> bool {
        self.since.elapsed() >= AGAIN || (1..ATTEMPTS).contains(&self.failures)
    }
}

impl Budget {
    const FULL: u32 = MAX_ENTRIES;

    fn new() -> Self {
        Self {
            since: Instant::now(),
            left: Self::FULL,
        }
    }

    /// Whether there is enough for the largest look-up.
    fn has_some(&mut self) -> bool {
        if self.since.elapsed() >= PERIOD {
            *self = Self::new();
        }
        self.left >= LockReader::<PageCache>::MAX_ENTRIES + LOOK_UP
    }

    fn spend(&mut self, entries: u32) {
        self.left = self.left.saturating_sub(entries.saturating_add(LOOK_UP));
    }
}

impl KnownLocks {
    /// Those of a process.
    pub(super) fn new(naming: LockNaming) -> Self {
        Self {
            known: HashMap::new(),
            names: HashMap::new(),
            max_addresses: match naming {
                LockNaming::WithoutAddresses => 0,
                LockNaming::WithAddresses => MAX_ADDRESSES,
            },
            budget: Budget::new(),
        }
    }

    /// Looks up the name of a lock if that is due; without `reader` it is not, since a variable is looked for in
    /// much memory.
    pub(super) fn look_up(
        &mut self,
        mut lock: Lock,
        reader: Option<&mut LockReader<'_, PageCache>>,
    ) -> FoundLock {
        let found_by = lock.address;
        let known = self.known.get_mut(&found_by);
        let is_known = known.is_some();
        let is_due = known.as_ref().is_none_or(|known| known.is_due());
        let has_budget = self.budget.has_some();
        let is_wanted = reader.is_some() && is_due;
        let Some(reader) = reader.filter(|_| is_due && has_budget) else {
            return FoundLock {
                found_by,
                is_searched: false,
                is_deferred: is_wanted && !is_known,
            };
        };
        let (variable, entries) = reader.name(&mut lock);
        self.budget.spend(entries);
        let failures = known.as_ref().map_or(0, |known| known.failures);
        let failures = if variable.is_some() { 0 } else { failures + 1 };
        if variable.is_none()
            && let Some(known) = known
            && let Some(object) = &known.object
            && reader.is_still(object, found_by)
        {
            // The variable, if there is one, is that of other functions.
            known.since = Instant::now();
            known.failures = if known.failures == 0 { 0 } else { failures };
        } else {
            self.remember(found_by, variable, lock, failures);
        }
        FoundLock {
            found_by,
            is_searched: true,
            is_deferred: false,
        }
    }

    /// A lock of a process without Python, whose name is its address.
    pub(super) fn look_up_native(&mut self, lock: Lock) -> FoundLock {
        let found_by = lock.address;
        if !self.known.contains_key(&found_by) {
            self.remember(found_by, None, lock, ATTEMPTS);
        }
        FoundLock {
            found_by,
            is_searched: true,
            is_deferred: false,
        }
    }

    /// The object that a lock is, if it is known.
    pub(super) fn object(&self, found: FoundLock) -> Option<&Lock> {
        self.known.get(&found.found_by)?.object.as_ref()
    }

    fn remember(&mut self, found_by: u64, variable: Option<String>, lock: Lock, failures: u32) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
            self.names.clear();
        }
        let base = base_name(variable, &lock);
        let before = self.known.get(&found_by);
        let name = match before.filter(|before| before.base == base) {
            Some(before) => before.name.clone(),
            None => self.new_name(&base, &lock),
        };
        let known = KnownLock {
            since: Instant::now(),
            name,
            base,
            object: lock.class.is_some().then_some(lock),
            failures,
        };
        self.known.insert(found_by, known);
    }

    /// The name of a lock, with its address while few have the same.
    fn new_name(&mut self, base: &str, lock: &Lock) -> Option<String> {
        if !self.names.contains_key(base) && self.names.len() >= MAX_NAMES {
            return None;
        }
        let addresses = self.names.entry(base.to_owned()).or_default();
        if addresses.len() < self.max_addresses {
            addresses.insert(lock.address);
        }
        if addresses.contains(&lock.address) {
            return Some(with_address(base, lock.address));
        }
        let has_name = lock.class.is_some() || base != UNKNOWN_CLASS;
        has_name.then(|| base.to_owned())
    }

    /// The name of a lock for which a thread was proved to wait: `Pool.jobs (Queue at 0x7f…)`, or `Lock at 0x7f…`
    /// where it is known that no variable was found; [`None`] while that is not, and where there is no name.
    pub(super) fn name(&mut self, found: FoundLock) -> Option<&str> {
        let known = self.known.get_mut(&found.found_by)?;
        if known.failures > 0 && found.is_searched {
            known.failures = known.failures.max(ATTEMPTS);
        }
        let is_known = known.failures == 0 || known.failures >= ATTEMPTS;
        known.name.as_deref().filter(|_| is_known)
    }
}

/// The name of a lock with its address, by that of the variable that refers to it.
pub(super) fn full_name(variable: Option<String>, lock: &Lock) -> String {
    with_address(&base_name(variable, lock), lock.address)
}

/// The name without the address: `Pool.jobs (Queue)`, `Lock`, or `critical section of dict`.
fn base_name(variable: Option<String>, lock: &Lock) -> String {
    let class = lock.class.as_deref().unwrap_or(UNKNOWN_CLASS);
    let mut class = shortened(class, CLASS_WIDTH);
    if lock.is_critical_section {
        class = format!("critical section of {class}").into();
    }
    match variable {
        Some(variable) => format!("{} ({class})", shortened(&variable, VARIABLE_WIDTH)),
        None => class.into_owned(),
    }
}

/// `Pool.jobs (Queue at 0x7f…)`, or `Lock at 0x7f…`.
fn with_address(base: &str, address: u64) -> String {
    match base.strip_suffix(')') {
        Some(base) => format!("{base} at {address:#x})"),
        None => format!("{base} at {address:#x}"),
    }
}

impl NamedLock {
    /// A lock with this name of a process.
    pub(super) fn new(seed: u64, tgid: u32, name: &str) -> Self {
        let mut padded = name.as_bytes().to_vec();
        padded.resize(name.len().next_multiple_of(size_of::<u64>()), 0);
        let (words, _) = padded.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(Hash::new(seed).word(tgid.into()), |hash, word| {
                hash.word(u64::from_ne_bytes(*word))
            })
            .finish();
        let bytes = size_of::<LockName>() + padded.len();
        let head = LockName {
            header: Header {
                kind: RecordKind::LOCK_NAME,
                reserved: 0,
                bytes: u32::try_from(bytes).unwrap_or(0),
            },
            lock: hash,
            name: Text {
                kind: Text::BYTES,
                truncated: 0,
                bytes: u16::try_from(name.len()).unwrap_or(0),
            },
            reserved: 0,
        };
        let mut record = Vec::with_capacity(bytes);
        record.extend_from_slice(head.as_bytes());
        record.extend_from_slice(&padded);
        Self { hash, record }
    }
}

#[cfg(test)]
mod tests {
    use agent_common::{decode::decode, decoded::Record};

    use super::*;

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
        let mut locks = KnownLocks::new(LockNaming::WithAddresses);
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
        let mut locks = KnownLocks::new(LockNaming::WithAddresses);
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
        let mut locks = KnownLocks::new(LockNaming::WithAddresses);
        for nth in 0..MAX_ADDRESSES {
            let expected = format!("Pool.jobs (lock at {:#x})", 0x1000 + nth);
            assert_eq!(name(&mut locks, nth, Some("Pool.jobs")), Some(expected));
        }
        let without = Some("Pool.jobs (lock)".to_owned());
        assert_eq!(
            name(&mut locks, MAX_ADDRESSES, Some("Pool.jobs")),
            without.clone()
        );
        // Looked up again it is the same one.
        let first = Some("Pool.jobs (lock at 0x1000)".to_owned());
        assert_eq!(name(&mut locks, 0, Some("Pool.jobs")), first);

        let mut locks = KnownLocks::new(LockNaming::WithoutAddresses);
        assert_eq!(name(&mut locks, 0, Some("Pool.jobs")), without);
        assert_eq!(name(&mut locks, 1, None), None);
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
}
